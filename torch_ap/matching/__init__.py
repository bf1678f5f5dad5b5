"""Detections matched to ground truths, and COCO's and VOC's numbers of them."""
