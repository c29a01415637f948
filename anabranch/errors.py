"""Every public error: a stable code, a message (a fact), a detail (what is given and what exists), a hint.

`place` is the file and line, where the error is about a file of a project.
"""

from __future__ import annotations


class AnabranchError(Exception):
    """Base of all errors of this package."""

    def __init__(self, code: str, message: str, detail: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.detail = detail
        self.hint = hint
        self.place = ""

    def to_dict(self) -> dict[str, str]:
        """The error for programs."""
        fields = {"code": self.code, "message": self.message, "detail": self.detail, "hint": self.hint}
        return fields | ({"place": self.place} if self.place else {})

    def __str__(self) -> str:
        lines = [f"[{self.code}] {self.place}: {self.message}" if self.place else f"[{self.code}] {self.message}"]
        if self.detail:
            lines.append(self.detail)
        if self.hint:
            lines.append(f"Hint: {self.hint}")
        return "\n".join(lines)


class QueryError(AnabranchError):
    """A query or statement that cannot be understood or is declined."""


class NotFoundError(AnabranchError):
    """A name that does not exist; the detail lists what does."""


class StateError(AnabranchError):
    """A request that does not fit the state of the lake: it exists already, others read it, it is paused."""


class ConflictError(AnabranchError):
    """Somebody else changed what this commit relies on. Doing it again may succeed."""


class StorageError(AnabranchError):
    """The lake cannot be opened, read or written."""


class RefreshError(AnabranchError):
    """A refresh failed; the node stays as it was."""


class SettingError(AnabranchError):
    """A setting, schedule or argument that is not understood."""
