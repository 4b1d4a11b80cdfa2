"""What is done with the repository rather than by the program: pages that are made, the site, releases.

pages       the pages of the site that are made when it is built
reference   the pages about commands and routes, made from the commands and from the service's description
openapi     the service's description, as a file
locked      what a lock file pins, and the licences of what is installed
licences    the page about licences
sbom        the bill of materials (CycloneDX)
audit       known vulnerabilities, where the list of them can be reached
site        how the pages become a site that needs nothing from elsewhere
first_run   what `make run` does: two settings of the paper, solved, drawn and served
walk        the files of the product that a request goes through, and the moves between them
release     a version, made and checked in a local folder
"""
