"""An object that its ``with`` block closes."""

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """``close`` runs at the end of the block, also when the block raises."""

    @abstractmethod
    def close(self) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
