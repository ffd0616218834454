"""Every operation of the product, declared once."""

from __future__ import annotations

from tandem.contract.operation import Registry
from tandem.operations import (
    access_operations,
    cycle_operations,
    file_operations,
    gate_operations,
    inbox_operations,
    pool_operations,
    project_operations,
    review_operations,
)

REGISTRY = Registry(
    (
        *review_operations.OPERATIONS,
        *gate_operations.OPERATIONS,
        *cycle_operations.OPERATIONS,
        *pool_operations.OPERATIONS,
        *file_operations.OPERATIONS,
        *inbox_operations.OPERATIONS,
        *access_operations.OPERATIONS,
        *project_operations.OPERATIONS,
    )
)
