"""Every operation of the product, declared once."""

from __future__ import annotations

from tandem.contract.operation import Registry
from tandem.operations import (
    access_contract,
    cycle_operations,
    file_operations,
    gate_contract,
    inbox_contract,
    pool_operations,
    project_contract,
    review_operations,
)

REGISTRY = Registry(
    (
        *review_operations.OPERATIONS,
        *gate_contract.OPERATIONS,
        *cycle_operations.OPERATIONS,
        *pool_operations.OPERATIONS,
        *file_operations.OPERATIONS,
        *inbox_contract.OPERATIONS,
        *access_contract.OPERATIONS,
        *project_contract.OPERATIONS,
    )
)
