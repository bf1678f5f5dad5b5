"""Data set of images and annotations with the interface of ``torchvision.datasets.CocoDetection``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch.utils.data import Dataset

from torch_ap.compat.coco import COCO

__all__ = ["CocoDetection"]


class CocoDetection(Dataset[tuple[Any, Any]]):
    """Images and their annotations, in ascending order of their ids.

    Same names and arguments as ``torchvision.datasets.CocoDetection``, without torchvision and pycocotools. Images are
    read by Pillow.

    Args:
        root: folder of the images.
        annFile: annotations: a path or a dict in COCO's form.
        transform: function of the image.
        target_transform: function of the annotations.
        transforms: function of the image and the annotations. Cannot be combined with the other two.

    Attributes:
        ids: the ids of the images.
        coco: the annotations, a :class:`torch_ap.compat.COCO`, for :class:`torch_ap.compat.CocoEvaluator`.

    Example:
        >>> from torch_ap.compat import CocoDetection
        >>> len(CocoDetection("images", {"images": [{"id": 7, "file_name": "7.jpg"}], "annotations": []}))
        1
    """

    def __init__(
        self,
        root: str | Path,
        annFile: Any,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        transforms: Callable[[Any, Any], tuple[Any, Any]] | None = None,
    ) -> None:
        if transforms is not None and (transform is not None or target_transform is not None):
            raise ValueError("`transforms` must be None with `transform` or `target_transform`")
        self.root, self.coco = root, COCO(annFile)
        self.ids = sorted(self.coco.imgs)
        self.transform, self.target_transform, self.transforms = transform, target_transform, transforms

    def _load_image(self, image_id: Any) -> Any:
        """Return the RGB image with an id."""
        try:
            from PIL import Image
        except ModuleNotFoundError:
            raise ModuleNotFoundError("images need Pillow: pip install pillow (extra `plot`)") from None
        return Image.open(Path(self.root) / self.coco.imgs[image_id]["file_name"]).convert("RGB")

    def _load_target(self, image_id: Any) -> list[Any]:
        """Return the annotations of the image with an id."""
        return self.coco.loadAnns(self.coco.getAnnIds(image_id))

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image, target = self._load_image(self.ids[index]), self._load_target(self.ids[index])
        if self.transforms is not None:
            return self.transforms(image, target)
        if self.transform is not None:
            image = self.transform(image)
        return image, target if self.target_transform is None else self.target_transform(target)

    def __len__(self) -> int:
        return len(self.ids)
