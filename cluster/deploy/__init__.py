"""The throwaway cluster: a real Ceph on this host that ends with the run."""

from cluster.deploy.bringup import DeployedCluster, ThrowawayCluster, check_deploy
from cluster.deploy.folder import folder_problem, reap_leftovers
from cluster.deploy.spec import ClusterSpec, DeployError

__all__ = [
    "ClusterSpec",
    "DeployError",
    "DeployedCluster",
    "ThrowawayCluster",
    "check_deploy",
    "folder_problem",
    "reap_leftovers",
]
