"""Pictures of results, and reports: self-contained HTML pages for releases, runs, studies and audits.

`release_page` makes the report that is published with a release;
`owner_page` makes those that are not; `audit_page` and `study_page` make the others from plain facts (`facts`).
"""
