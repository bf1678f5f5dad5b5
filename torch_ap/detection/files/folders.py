"""Folders of text files, one per image or class, and mappings from the names of these files to their content."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from torch_ap.core.base.messages import Plain, raise_invalid, short_repr
from torch_ap.core.columns import text

Folder: TypeAlias = str | Path | Mapping[str, Any]

_LARGEST_EXACT = 1 << 53  # larger numbers keep their exponent, so that their text stays short


class Document(NamedTuple):
    """A file of a folder, or an entry of a mapping.

    Attributes:
        stem: name of the file without suffix, or key of the entry.
        where: path of the file, or argument and key of the entry, for messages.
        content: path of the file, or content of the entry.
    """

    stem: str
    where: str
    content: Any

    def __str__(self) -> str:
        return self.where

    def read(self) -> str:
        """Return the text of the document.

        Raises:
            OSError: for a file that cannot be read.
            ValueError: naming document and line, for anything but UTF-8 text, and for content without lines or rows.
        """
        if isinstance(self.content, Path):
            return text.read(self.content)
        content = _as_plain(self.content, self.where)
        if isinstance(content, list | tuple):
            content = "\n".join(row_text(row, f"{self.where}, line {n}") for n, row in enumerate(content, 1))
        if isinstance(content, str):
            content = content.encode("utf-8", "surrogatepass")  # the check of the text names the place of a surrogate
        if not isinstance(content, bytes):
            got = f"got {short_repr(self.content)}"
            raise ValueError(f"{self.where}: must be text, bytes, a list of lines, or an array or table of rows, {got}")
        return text.decode(content, self.where)

    def lines(self) -> list[text.Line]:
        """Return the lines that are not blank; errors as of :meth:`read`."""
        return text.split_lines(self.read(), self.where)


def _as_plain(value: Any, where: str) -> Any:
    """Return arrays, tensors and tables as lists, and their numbers as Python's; ``where`` is the name in messages."""
    if isinstance(value, Tensor) and value.layout is not torch.strided:
        raise ValueError(f"{where}: must be a dense tensor, as from `to_dense()`, got {value.layout}")
    value = value.to_numpy() if hasattr(value, "to_numpy") else value
    return value.tolist() if isinstance(value, np.ndarray | np.generic | Tensor) else value


def row_text(row: Any, where: str) -> str:
    """Return a line, or the numbers and names of a row joined to a line; ``where`` is its name in messages."""
    row = _as_plain(row, where)
    if isinstance(row, str):
        return row.rstrip("\r\n")
    values = [_as_plain(value, where) for value in row] if isinstance(row, list | tuple) else []
    if not values or not {str, int, float}.issuperset(map(type, values)):
        raise ValueError(f"{where}: must be text or a row of numbers and names, got {short_repr(row)}")
    return " ".join(map(_word, values))


def _word(value: str | float) -> str:
    """Return a value as text; labels in arrays of floats become whole numbers."""
    is_label = isinstance(value, float) and value.is_integer() and abs(value) < _LARGEST_EXACT
    return str(int(value) if is_label else value)


def folder_name(folder: Folder, argument: str) -> str:
    """Return the name of a folder in messages: its path, or the argument with a mapping."""
    return f"`{argument}`" if isinstance(folder, Mapping) else str(folder)


def documents(folder: Any, argument: str, suffix: str = "txt") -> list[Document]:
    """Return the files of a folder with a suffix, or all entries of a mapping, in order of the files' names."""
    if isinstance(folder, Mapping):
        for key in folder:
            if not isinstance(key, str):
                raise_invalid(argument, "must have names of images or classes as keys, as text", key, TypeError)
        entries = sorted(folder.items(), key=lambda entry: f"{entry[0]}.{suffix}")
        return [Document(key, f"`{argument}[{short_repr(key)}]`", content) for key, content in entries]
    if not isinstance(folder, str | os.PathLike):
        rule = "must be a folder, or a mapping from names to the content of files"
        raise_invalid(argument, rule, Plain(type(folder).__name__), TypeError)
    return [Document(path.stem, str(path), path) for path in sorted(Path(folder).glob(f"*.{suffix}"))]


def check_truths(folder: Folder, files: Sequence[Document], suffixes: str = ".txt") -> None:
    """Raise ValueError unless a folder of ground truths exists and has files, or a mapping has entries."""
    if files:
        return
    if isinstance(folder, Mapping):
        raise_invalid("ground_truths", "must have an entry per image", folder)
    if not Path(folder).exists():
        raise ValueError(f"{folder}: no such folder")
    also = " (COCO's JSON is for torch-ap coco)" if Path(folder).is_file() else ""
    raise ValueError(f"{folder}: must be a folder with {suffixes} files, one per image{also}")


def detection_documents(folder: Folder, allow_empty: bool) -> list[Document]:
    """Return the documents of a folder or mapping of detections, at least one unless ``allow_empty``."""
    files = documents(folder, "detections")
    if isinstance(folder, Mapping):
        if not files and not allow_empty:
            raise_invalid("detections", "must have an entry (allow_empty=True lets it pass)", folder)
        return files
    if not Path(folder).exists():
        raise ValueError(f"{folder}: no such folder")
    if not Path(folder).is_dir() or not (allow_empty or files):
        also = " (--allow-empty lets it pass)" if Path(folder).is_dir() else ""
        if any(Path(folder).glob("*.xml")):
            also = "; it has .xml files, as ground truths do: are the folders swapped?"
        raise ValueError(f"{folder}: must be a folder with .txt files of detections{also}")
    return files


def documents_by_class(files: Sequence[Document], class_of: Callable[[str], str]) -> list[tuple[Document, str]]:
    """Return each document and its class. Each class must have one document."""
    seen: dict[str, Document] = {}
    for file in files:
        name = class_of(file.stem)
        if name in seen:
            raise ValueError(f"{file}: class {short_repr(name)} must have one file, but has {seen[name]} too")
        seen[name] = file
    return [(file, name) for name, file in seen.items()]
