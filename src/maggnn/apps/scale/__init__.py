"""`maggnn predict --ray`: tables of any size on Ray, from one machine to a cluster."""
