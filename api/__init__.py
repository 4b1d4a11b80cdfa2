"""HTTP service: routes, jobs, access control and the web page, on top of `darrm_opt`."""
