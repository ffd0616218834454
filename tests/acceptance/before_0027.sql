DELETE FROM counters WHERE metric = 'rounds' OR (category = '' AND day = '')
ALTER TABLE reviewers DROP COLUMN activity
DROP TABLE contested_files
ALTER TABLE reviews DROP COLUMN objections
ALTER TABLE reviews DROP COLUMN objected_round
ALTER TABLE reviews DROP COLUMN needs
ALTER TABLE reviews DROP COLUMN seats
ALTER TABLE reviews DROP COLUMN by_checks
DROP INDEX ix_reviews_owed
ALTER TABLE reviews DROP COLUMN waived
ALTER TABLE reviews DROP COLUMN owed_until
ALTER TABLE reviews DROP COLUMN looked
DROP INDEX ix_reviewers_profile
ALTER TABLE reviewers DROP COLUMN profile
ALTER TABLE pools DROP COLUMN profiles_out
ALTER TABLE reviews DROP COLUMN at_work
ALTER TABLE reviews DROP COLUMN leases
ALTER TABLE reviews DROP COLUMN generations
ALTER TABLE reviews DROP COLUMN seats_free
ALTER TABLE reviews DROP COLUMN ends_as
ALTER TABLE findings DROP COLUMN settled_round
ALTER TABLE findings DROP COLUMN written_by
ALTER TABLE findings DROP COLUMN blob
ALTER TABLE findings DROP COLUMN changed
DROP INDEX ix_findings_telling
ALTER TABLE findings DROP COLUMN telling
UPDATE alembic_version SET version_num = '0026_drafts'
