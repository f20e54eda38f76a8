"""Drawings and reports: SVG files, and self-contained HTML pages for releases, runs and audits.

`release_page` makes the report that is published with a release, `owner_page` those that are not, `audit_page` those of
audits. Pages are made of `page`, `markup` and `facts`; `pictures` writes a drawing as a file of its own.
"""
