"""HTTP service: routes, jobs, access control and the web page. It translates; the mathematics is in `darrm_opt`."""
