"""Which texts of the tables events may have as they are: the log is kept for good, shown, and posted to webhooks."""

from __future__ import annotations

from sqlalchemy import Text

from tandem.schema import TANDEM
from tandem.store.ledger import SEALED

OPEN = {
    "ids and names that Tandem, git or a project gave": """
        base base_commit base_files_id becomes branch branches carried commit_id content_id counter_patch_id cycle_id
        depends_on description_id diff_id draft_id epochs head head_after head_before id incarnation log_id name
        operation parent parent_id pool_id project projects replaces resolves reverted reverted_by review_id review_ids
        runner question_id subject suppressed_by target tip tree verdict_id webhook_id workflow accepted trusted signers
        folders found_in
    """,
    "who did something, by the name that they say or their token has": """
        accepted_by active_role actor agent_role agent_type answered_by author created_by overridden_by paused_by person
        principal producer proposer proposer_id recorded_by requested_by resolved_by reviewer_id role roles
        rolled_back_by sender_id sender_role sent_by settled_by speaker switched_by verdict_by written_by
    """,
    "words of the contract: states, kinds, dates, numbers by name": """
        activity auth category checks commits counter_patch_status day drain_reason end_reason ends_as format kind kinds
        leases metric mode mode_after mode_before model new next_phase old origin outcome outcomes paused_kind provider
        rules speaker_kind severity side state status threshold turn verdict
    """,
    "digests of visible contents, keyed digests, and those in tables without events": """
        blob blob_after blob_before body_hash command_hash digest event_hash fingerprint hash inverse key_check
        login_hash previous setup source telling
    """,
    "what people, agents and programs write for others to read": """
        affected_files attention body changes claim data definition delta failure feature file ground host intent lines
        looked metadata needs notes path paused phase plan profile profiles_out reason rework root seats settled_reason
        suggestion task verdict_reason waived at_work
    """,
    "commands of files in the repository": "command",
    "URLs in which no password is taken (`mirror`)": "mirror",
    "answers and keys of calls, kept for a day, of which no event tells": "answer key",
}
"""The columns, by the reason why they give no secret away."""


def test_every_text_of_a_table_is_sealed_in_events_or_is_known_to_be_no_secret() -> None:
    texts = {
        column.name: f"{table.name}.{column.name}"
        for table in TANDEM.metadata.tables.values()
        for column in table.columns
        if isinstance(column.type, Text)
    }
    listed = [name for names in OPEN.values() for name in names.split()]
    assert sorted(place for name, place in texts.items() if name not in {*SEALED, *listed}) == []
    assert sorted({*SEALED, *listed} - texts.keys()) == []
    assert len(listed) == len({*listed} - SEALED)
