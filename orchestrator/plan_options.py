"""What a plan may say outside `benchmarks:`, as data. The plan reader and docs/plan.md both go by these tables."""

from __future__ import annotations

from benchmarks.options import Kind, Option
from cluster.monitors.base import ProfileKey
from cluster.monitors.registry import all_monitors

TOP_LEVEL = ("cluster", "benchmarks", "monitoring_profiles", "client_endpoints", "common", "report")
REQUIRED_SECTIONS = ("cluster", "benchmarks")

IGNORED_SECTIONS = {
    "common": "settings of the older tool's remote shell; this program has its own",
    "report": "reports are made by the commands in tools/",
}

ROLES = ("clients", "osds", "mons", "mgrs", "mdss", "rgws")
DAEMON_ROLES = ("osds", "mons", "mgrs", "mdss", "rgws")
HEAD_ROLE = "head"
MONITORED_ROLES = (*ROLES, HEAD_ROLE)

KNOWN_TOOLS = (
    "ceph",
    "rados",
    "rbd",
    "ceph-osd",
    "ceph-mon",
    "ceph-mgr",
    "ceph-mds",
    "ceph-rgw",
    "ceph-run",
    "ceph-fuse",
    "rbd-nbd",
    "rbd-fuse",
    "ceph-authtool",
    "monmaptool",
    "radosgw-admin",
)
"""Tools whose `<tool>_cmd` keys people use; any other tool is taken too."""

KEY_ALIASES = {"ceph.conf": "conf_file", "servers": "osds"}
"""Older names of cluster keys."""

CACHE_TIER = "Ceph has given up cache tiering, and no cache tier is made"
_POOL_PREFILL = "pools are not filled this way in this version; volumes are (prefill)"
_FILESTORE = "OSDs here are BlueStore or memstore, which have no file system"
_VALGRIND = "daemons always run as they are: under valgrind they would measure valgrind"
_OSD_START = "all OSDs of a throwaway cluster start together"

HOST_OPTIONS: tuple[Option, ...] = (
    Option(
        "clients",
        Kind.HOSTS,
        sweep=False,
        description="Hosts that make the load. Required; on a throwaway cluster it defaults to localhost.",
    ),
    Option(
        "head",
        Kind.HOSTS,
        sweep=False,
        description="The one host where ceph commands run; unset: the first of `mons`, else the first of `clients`.",
    ),
    Option("osds", Kind.HOSTS, sweep=False, description="Hosts with OSDs."),
    Option("mons", Kind.HOSTS, sweep=False, description="Hosts with monitors."),
    Option("mgrs", Kind.HOSTS, sweep=False, description="Hosts with managers."),
    Option("mdss", Kind.HOSTS, sweep=False, description="Hosts with metadata servers."),
    Option("rgws", Kind.HOSTS, sweep=False, description="Hosts with object gateways."),
)

RECOVERY_TEST_OPTIONS: tuple[Option, ...] = (
    Option("osds", Kind.LIST, default=(), sweep=False, description="Numbers of the OSDs that go down."),
    Option("pre_time", Kind.INTEGER, default=60, unit="s", minimum=0, sweep=False, description="Load before that."),
    Option("post_time", Kind.INTEGER, default=60, unit="s", minimum=0, sweep=False, description="Load after recovery."),
    Option("repeat", Kind.FLAG, default=False, sweep=False, description="Take the OSDs down again and again."),
)

CLUSTER_OPTIONS: tuple[Option, ...] = (
    Option("user", Kind.TEXT, sweep=False, description="User to log in as on hosts that name none."),
    Option(
        "use_existing",
        Kind.FLAG,
        default=True,
        sweep=False,
        description="Use the cluster that is there. False: start a throwaway cluster on this host for this run and "
        "remove it afterwards.",
    ),
    Option("iterations", Kind.INTEGER, default=1, minimum=1, sweep=False, description="How often everything is run."),
    Option("conf_file", Kind.TEXT, sweep=False, description="The cluster's ceph.conf; `-c` takes precedence."),
    Option("clusterid", Kind.TEXT, sweep=False, no_effect="the ceph.conf says which cluster it is"),
    Option("tmp_dir", Kind.TEXT, sweep=False, description="Folder for a run's temporary files; unset: one is made."),
    Option("archive_dir", Kind.TEXT, sweep=False, description="Where results go; `-a` takes precedence."),
    Option(
        "pid_dir",
        Kind.TEXT,
        sweep=False,
        description="Where the daemons' pid files are, for monitors; unset: a throwaway cluster's own.",
    ),
    Option(
        "osds_per_node",
        Kind.INTEGER,
        default=3,
        minimum=1,
        sweep=False,
        description="OSDs on each host of `osds`. A throwaway cluster has this many for every host named there, all of "
        "them on this host; this many in all when none is named.",
    ),
    Option(
        "osd_objectstore",
        Kind.TEXT,
        default="bluestore",
        choices=("bluestore", "memstore"),
        sweep=False,
        description="How a throwaway cluster's OSDs store data. memstore keeps it in memory.",
    ),
    Option(
        "osd_size",
        Kind.SIZE,
        default=2 << 30,
        unit="bytes",
        minimum=64 << 20,
        sweep=False,
        description="Size of each OSD of a throwaway cluster.",
    ),
    Option(
        "osd_devices",
        Kind.LIST,
        default=(),
        sweep=False,
        description="Empty block devices for a throwaway cluster's OSDs, one each; unset: files under `tmp_dir`.",
    ),
    Option(
        "rebuild_every_test",
        Kind.FLAG,
        default=False,
        sweep=False,
        description="Make pools and volumes anew (a throwaway cluster too) before every benchmark.",
    ),
    Option("idle_duration", Kind.INTEGER, default=0, unit="s", minimum=0, sweep=False, description="Idle time first."),
    Option(
        "health_wait",
        Kind.INTEGER,
        default=5,
        unit="s",
        minimum=0,
        sweep=False,
        description="Interval at which the cluster's health is asked for while waiting.",
    ),
    Option(
        "on_host_lost",
        Kind.TEXT,
        default="stop",
        choices=("stop", "continue"),
        sweep=False,
        description="What a run does when a client host is lost and not back after `host_lost_timeout`: stop, to be "
        "taken up again, or continue without it; its points are then partial.",
    ),
    Option(
        "host_lost_timeout",
        Kind.INTEGER,
        default=300,
        unit="s",
        minimum=0,
        sweep=False,
        description="How long a lost client host is waited for.",
    ),
    Option(
        "disable_balancer", Kind.FLAG, default=False, sweep=False, description="Switch Ceph's balancer off for the run."
    ),
    Option(
        "recovery_test",
        Kind.MAPPING,
        sweep=False,
        fields=RECOVERY_TEST_OPTIONS,
        description="Take OSDs down during the measurements.",
    ),
    Option(
        "crush_profiles",
        Kind.MAPPING,
        sweep=False,
        no_effect="CRUSH rules are not made here; `crush_profile` names one that is there",
    ),
    Option("cephfs_pools", Kind.MAPPING, default={}, sweep=False, description="Pool of CephFS to its pool profile."),
    Option("rgw_pools", Kind.MAPPING, default={}, sweep=False, description="Pool of the gateways to its pool profile."),
    Option("is_teuthology", Kind.FLAG, sweep=False, no_effect="nothing here depends on teuthology"),
    Option("version_compat", Kind.TEXT, sweep=False, no_effect="the cluster is asked for its version"),
    Option(
        "osd_ra",
        Kind.INTEGER,
        sweep=False,
        no_effect="BlueStore reads its devices with direct I/O, past any read-ahead",
    ),
    Option("fs", Kind.TEXT, sweep=False, no_effect=_FILESTORE),
    Option("mkfs_opts", Kind.TEXT, sweep=False, no_effect=_FILESTORE),
    Option("mount_opts", Kind.TEXT, sweep=False, no_effect=_FILESTORE),
    Option("mnt_dir", Kind.TEXT, sweep=False, no_effect=_FILESTORE),
    Option("newstore_block", Kind.FLAG, sweep=False, no_effect=_FILESTORE),
    Option("osd_valgrind", Kind.TEXT, sweep=False, no_effect=_VALGRIND),
    Option("mon_valgrind", Kind.TEXT, sweep=False, no_effect=_VALGRIND),
    Option("mgr_valgrind", Kind.TEXT, sweep=False, no_effect=_VALGRIND),
    Option("mds_valgrind", Kind.TEXT, sweep=False, no_effect=_VALGRIND),
    Option("rgw_valgrind", Kind.TEXT, sweep=False, no_effect=_VALGRIND),
    Option("osd_online_rate", Kind.NUMBER, sweep=False, no_effect=_OSD_START),
    Option("osd_online_timeout", Kind.NUMBER, sweep=False, no_effect=_OSD_START),
    Option("osd_parallel_creates", Kind.INTEGER, sweep=False, no_effect=_OSD_START),
    Option("crimson_cpusets", Kind.ANY, sweep=False, no_effect="Crimson OSDs are not started by this program"),
    Option("tiering", Kind.FLAG, sweep=False, no_effect=CACHE_TIER),
    Option("pdsh_ssh_args", Kind.TEXT, sweep=False, no_effect="hosts are reached without pdsh"),
    Option("log_dir", Kind.TEXT, sweep=False, no_effect="logs stand under tmp_dir"),
    Option("core_dir", Kind.TEXT, sweep=False, no_effect="the hosts' core pattern is left as it is"),
    Option("monitoring_dir", Kind.TEXT, sweep=False, no_effect="monitors write under tmp_dir"),
    Option("tmp_conf", Kind.TEXT, sweep=False, no_effect="conf_file names the ceph.conf"),
)

PROFILE_SECTIONS = ("pool_profiles", "erasure_profiles")
"""Keys of `cluster:` that hold named profiles, read by tables of their own."""

POOL_PROFILE_OPTIONS: tuple[Option, ...] = (
    Option("pg_size", Kind.INTEGER, default=1024, minimum=1, sweep=False, description="Placement groups of the pool."),
    Option(
        "pgp_size",
        Kind.INTEGER,
        default=1024,
        minimum=1,
        sweep=False,
        description="Placement groups for placement; unset: as many as `pg_size`.",
    ),
    Option(
        "replication",
        Kind.ANY,
        sweep=False,
        description="Number of copies, or `erasure`, or `replicated` for the cluster's own default (as when unset).",
    ),
    Option(
        "erasure_profile",
        Kind.TEXT,
        sweep=False,
        description="The entry of `erasure_profiles`; needed with `replication: erasure`.",
    ),
    Option(
        "ec_overwrites", Kind.FLAG, default=False, sweep=False, description="Let an erasure-coded pool hold image data."
    ),
    Option("crush_profile", Kind.TEXT, sweep=False, description="A CRUSH rule of the cluster."),
    Option("cache_profile", Kind.TEXT, sweep=False, no_effect=CACHE_TIER),
    Option("cache_mode", Kind.TEXT, sweep=False, no_effect=CACHE_TIER),
    Option("hit_set_type", Kind.TEXT, sweep=False, no_effect=CACHE_TIER),
    Option("hit_set_count", Kind.INTEGER, sweep=False, no_effect=CACHE_TIER),
    Option("hit_set_period", Kind.INTEGER, sweep=False, no_effect=CACHE_TIER),
    Option("target_max_objects", Kind.INTEGER, sweep=False, no_effect=CACHE_TIER),
    Option("target_max_bytes", Kind.SIZE, sweep=False, no_effect=CACHE_TIER),
    Option("min_read_recency_for_promote", Kind.INTEGER, sweep=False, no_effect=CACHE_TIER),
    Option("min_write_recency_for_promote", Kind.INTEGER, sweep=False, no_effect=CACHE_TIER),
    Option("prefill_objects", Kind.INTEGER, sweep=False, no_effect=_POOL_PREFILL),
    Option("prefill_object_size", Kind.SIZE, sweep=False, no_effect=_POOL_PREFILL),
    Option("prefill_time", Kind.INTEGER, sweep=False, no_effect=_POOL_PREFILL),
    Option("recov_pool", Kind.FLAG, sweep=False, no_effect=_POOL_PREFILL),
    Option("prefill_recov_objects", Kind.INTEGER, sweep=False, no_effect=_POOL_PREFILL),
    Option("prefill_recov_object_size", Kind.SIZE, sweep=False, no_effect=_POOL_PREFILL),
    Option("prefill_recov_time", Kind.INTEGER, sweep=False, no_effect=_POOL_PREFILL),
)

ERASURE_PROFILE_OPTIONS: tuple[Option, ...] = (
    Option("erasure_k", Kind.INTEGER, default=6, minimum=1, sweep=False, description="Data chunks (`k`)."),
    Option("erasure_m", Kind.INTEGER, default=2, minimum=0, sweep=False, description="Coding chunks (`m`)."),
)
"""Any other key is passed on to `ceph osd erasure-code-profile set` as written."""

MONITOR_NAMES = tuple(all_monitors())


def _monitor_option(key: ProfileKey) -> Option:
    return Option(
        key.name, Kind.COMMAND if key.kind == "command" else Kind.LIST, sweep=False, description=key.description
    )


MONITOR_OPTIONS: tuple[Option, ...] = (
    Option(
        "nodes",
        Kind.LIST,
        sweep=False,
        description=f"Roles whose hosts are watched: {', '.join(MONITORED_ROLES)}; unset: all of them.",
    ),
    Option(
        "args",
        Kind.TEXT,
        sweep=False,
        description="The monitor's arguments, with "
        f"{', '.join(f'`{{{monitor.directory_placeholder}}}`' for monitor in all_monitors().values())} (its own "
        "folder, also `{output_dir}`) and `{pid}` filled in; unset: see docs/monitors.md.",
    ),
    Option(
        "pid_glob",
        Kind.TEXT,
        default="osd.*.pid",
        sweep=False,
        description="Which pid files in `cluster.pid_dir` name the processes for `{pid}`.",
    ),
    *(_monitor_option(key) for monitor in all_monitors().values() for key in monitor.profile_keys),
)

ENDPOINT_DRIVERS = (
    "librbd",
    "rbd-kernel",
    "rbd-nbd",
    "rbd-fuse",
    "rbd-tcmu",
    "cephfs-kernel",
    "cephfs-fuse",
    "s3",
)

ENDPOINT_OPTIONS: tuple[Option, ...] = (
    Option(
        "driver", Kind.TEXT, choices=ENDPOINT_DRIVERS, sweep=False, description="How storage is attached (required)."
    ),
    Option(
        "endpoint_size", Kind.INTEGER, default=4096, unit="MiB", minimum=1, sweep=False, description="Size of each."
    ),
    Option(
        "endpoints_per_client", Kind.INTEGER, default=1, minimum=1, sweep=False, description="How many on each client."
    ),
    Option("pool_profile", Kind.TEXT, default="default", sweep=False, description="Profile of the pool."),
    Option("data_pool_profile", Kind.TEXT, sweep=False, description="Profile of a second pool for the data."),
    Option(
        "recov_pool_profile",
        Kind.TEXT,
        default="default",
        sweep=False,
        description="Profile of the pool of a background recovery.",
    ),
    Option(
        "order",
        Kind.INTEGER,
        default=22,
        unit="log2 of bytes",
        minimum=12,
        maximum=25,
        sweep=False,
        description="Object size of the images as a power of two; 22 is 4 MiB.",
    ),
    Option("disabled_features", Kind.LIST, sweep=False, description="Image features to switch off."),
    Option("access_key", Kind.TEXT, sweep=False, secret=True, description="s3: access key; made when unset."),
    Option("secret_key", Kind.TEXT, sweep=False, secret=True, description="s3: secret key; made when unset."),
    Option("user", Kind.TEXT, default="cbt", sweep=False, description="s3: the gateway's user."),
    Option("urls", Kind.LIST, sweep=False, description="s3: the gateways' URLs; unset: the plan's rgws."),
)
