"""Every operation of the product, declared once."""

from __future__ import annotations

from tandem.access import contract as access_contract
from tandem.contract.operation import Registry
from tandem.cycles import requests as cycle_operations
from tandem.gate import contract as gate_contract
from tandem.inbox import contract as inbox_contract
from tandem.landings import contract as landing_contract
from tandem.pool import contract
from tandem.projects import contract as project_contract
from tandem.reviews import check_contract, finding_contract, page_contract
from tandem.reviews import requests as review_operations
from tandem.webhooks import contract as webhook_contract

REGISTRY = Registry(
    (
        *review_operations.OPERATIONS,
        *check_contract.OPERATIONS,
        *finding_contract.OPERATIONS,
        *gate_contract.OPERATIONS,
        *landing_contract.OPERATIONS,
        *cycle_operations.OPERATIONS,
        *contract.OPERATIONS,
        *page_contract.OPERATIONS,
        *inbox_contract.OPERATIONS,
        *access_contract.OPERATIONS,
        *project_contract.OPERATIONS,
        *webhook_contract.OPERATIONS,
    )
)
