"""What can go wrong between the captured graph and its compiled form."""

from __future__ import annotations


class InvalidBackend(RuntimeError):
    def __init__(self, name: str, known: list[str]) -> None:
        self.name = name
        super().__init__(
            f"Invalid backend: {name!r}. Known are {', '.join(known)}; "
            "see pellucid.list_backends(None) for the debug ones too, or pass the backend itself."
        )


class BackendCompilerFailed(RuntimeError):
    """The backend raised, or gave back something that cannot be called. `inner_exception` is what it raised, with its traceback."""

    def __init__(self, backend_name: str, inner_exception: BaseException) -> None:
        self.backend_name = backend_name
        self.inner_exception = inner_exception
        super().__init__(f"backend={backend_name!r} raised:\n{type(inner_exception).__name__}: {inner_exception}")

    def __reduce__(self) -> tuple[type, tuple]:
        return (type(self), (self.backend_name, self.inner_exception))


class GraphRefused(Exception):
    """A backend says what of the graph it would compute otherwise than eager does: the graph breaks there."""
