"""Evaluation rules of COCO, LVIS, VOC, Open Images, nuScenes and KITTI."""
