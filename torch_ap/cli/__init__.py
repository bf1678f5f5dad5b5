"""The command ``torch-ap``, one module per sub-command."""
