"""Files on this machine or on any file system that PyArrow opens (s3://, gs://, hdfs://, file://).

It has only what screening needs: the tables of a folder, streams of their bytes, and atomic writes.
"""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from maggnn.data.files import whole_file
from maggnn.errors import InputError, first_line


@dataclass(frozen=True)
class Place:
    """A file or folder.

    Attributes:
        files: the file system, one of `pyarrow.fs`.
        path: the path within that file system.
        shown: the path as the user wrote it, for messages.
    """

    files: Any
    path: str
    shown: str

    @property
    def name(self) -> str:
        return posixpath.basename(self.path.rstrip("/"))

    @property
    def local(self) -> bool:
        return self.files.type_name == "local"

    @property
    def suffix(self) -> str:
        """The suffix in lower case."""
        return posixpath.splitext(self.path)[1].lower()

    def within(self, name: str) -> Place:
        """Return the file or folder of that name in this folder."""
        return Place(self.files, posixpath.join(self.path, name), posixpath.join(self.shown, name))

    def kind(self) -> str:
        """Return what exists there: "file", "folder" or "nothing"."""
        from pyarrow.fs import FileType

        with _as_input_error(self, "read"):
            found = self.files.get_file_info([self.path])[0].type
        return {FileType.File: "file", FileType.Directory: "folder"}.get(found, "nothing")

    def listed(self) -> list[Place]:
        """Return the files of this folder, sorted by name, without hidden ones and those that begin with _."""
        from pyarrow.fs import FileSelector, FileType

        with _as_input_error(self, "read"):
            entries = self.files.get_file_info(FileSelector(self.path, recursive=False, allow_not_found=True))
        names = sorted(entry.base_name for entry in entries if entry.type == FileType.File)
        return [self.within(name) for name in names if not name.startswith((".", "_"))]

    def open(self, offset: int = 0) -> Any:
        """Open a stream of bytes that begins at `offset`."""
        with _as_input_error(self, "read"):
            stream = self.files.open_input_file(self.path)
            stream.seek(offset)
            return stream

    def read(self) -> bytes:
        with _as_input_error(self, "read"), self.open() as stream:
            return stream.read()

    def write(self, content: bytes) -> None:
        """Write the file atomically: under another name first, or, on an object store, published when closed."""
        if self.local:
            with whole_file(Path(self.path)) as waiting:
                waiting.write_bytes(content)
            return
        with _as_input_error(self, "written"):
            self.files.create_dir(posixpath.dirname(self.path), recursive=True)
            with self.files.open_output_stream(self.path) as stream:
                stream.write(content)

    def remove(self) -> None:
        with _as_input_error(self, "written"):
            self.files.delete_file(self.path)


def place_of(text: str) -> Place:
    """Return the file or folder for a path or a URI."""
    from pyarrow import ArrowException
    from pyarrow.fs import FileSystem, LocalFileSystem

    if "://" not in text:
        return Place(LocalFileSystem(), Path(text).absolute().as_posix(), text)
    try:
        files, path = FileSystem.from_uri(text)
    except (ArrowException, OSError, ValueError, ImportError) as error:
        raise InputError(
            f"{text}: cannot be opened ({first_line(getattr(error, 'strerror', None) or error)})"
        ) from error
    return Place(files, path.rstrip("/"), text.rstrip("/"))


def tables_of(place: Place, endings: Sequence[str]) -> list[Place]:
    """Return the table at a path, or all tables of a folder, which must have one format."""
    kind = place.kind()
    if kind == "nothing":
        raise InputError(f"{place.shown}: no such file or folder")
    if kind == "file" and place.suffix not in endings:
        raise InputError(f"{place.shown}: cannot read {place.suffix or 'a file without an ending'}, only "
                         f"{', '.join(endings)}")  # fmt: skip
    if kind == "file":
        return [place]
    found = [file for file in place.listed() if file.suffix in endings]
    if not found:
        raise InputError(f"{place.shown}: the folder has no table ({', '.join(endings)})")
    other = next((file for file in found if file.suffix != found[0].suffix), None)
    if other is not None:
        raise InputError(f"{place.shown}: {found[0].name} and {other.name} have different formats: give one format")
    return found


@contextlib.contextmanager
def _as_input_error(place: Place, what: str) -> Iterator[None]:
    """Convert errors of a file system to an `InputError` of one line with the path."""
    try:
        yield
    except OSError as error:
        raise InputError(f"{place.shown}: cannot be {what} ({first_line(error.strerror or error)})") from error
