"""Tools for the repository: generated pages, the site, releases.

pages       pages of the site that are generated
reference   pages about commands, routes, settings and metrics
openapi     the description of the API
locked      pinned packages, and licences of installed ones
licences    the page about licences
sbom        the bill of materials (CycloneDX)
audit       known vulnerabilities, if their list is reachable
site        the MkDocs hook
first_run   `make run`: two settings of the paper, solved, drawn and served
walk        the files that a request passes through
release     a release, built and checked in a local folder
"""
