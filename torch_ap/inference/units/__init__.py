"""Rankings of items that belong to units drawn whole: detections, of which an image holds many."""
