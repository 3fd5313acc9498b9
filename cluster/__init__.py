"""Machines and Ceph: hosts, commands, transports, the launcher, pools, volumes, the throwaway cluster."""
