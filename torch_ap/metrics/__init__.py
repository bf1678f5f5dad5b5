"""The measures as ``torchmetrics.Metric`` classes: state batch by batch, a number at the end."""
