"""Every operation of the product, declared once."""

from __future__ import annotations

from tandem.operations import (
    access_operations,
    cycle_operations,
    file_operations,
    gate_operations,
    inbox_operations,
    pool_operations,
    review_operations,
)
from tandem.operations.registry import Registry

REGISTRY = Registry(
    (
        *review_operations.OPERATIONS,
        *gate_operations.OPERATIONS,
        *cycle_operations.OPERATIONS,
        *pool_operations.OPERATIONS,
        *file_operations.OPERATIONS,
        *inbox_operations.OPERATIONS,
        *access_operations.OPERATIONS,
    )
)
