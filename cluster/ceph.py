"""A typed façade over the `ceph` and `rbd` commands: argument vectors in, validated JSON answers out."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

from cluster.answers import Answer, Json, MalformedAnswer
from cluster.command import Command
from cluster.transports.base import Completed, Transport

T = TypeVar("T")

NO_FILE = 2
_SECRET_NAME = re.compile(r"key|secret|password|token", re.IGNORECASE)


class CephError(Exception):
    """A call to Ceph that failed or answered nonsense: host, command, what happened and what to do, in one line."""


class NoSuchThing(CephError):
    """The pool, image or profile asked for does not exist."""


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """What `ceph status` says. Figures Ceph leaves out when they are zero are 0 here.

    `checks` maps a health check's name to its message. Ratios are 0..1, rates per second.
    `mgr_available`: placement figures come from the manager and are meaningless without it.
    """

    fsid: str
    health: str
    checks: Mapping[str, str]
    pgs_by_state: Mapping[str, int]
    num_pgs: int
    num_osds: int
    num_up_osds: int
    num_in_osds: int
    mgr_available: bool
    degraded_objects: int
    degraded_ratio: float
    misplaced_objects: int
    misplaced_ratio: float
    recovering_objects_per_s: float
    recovering_bytes_per_s: float
    inactive_pgs_ratio: float
    unfound_objects: int
    quorum: tuple[str, ...]
    total_bytes: int
    """0 until the manager has heard from the OSDs."""

    @property
    def scrubbing_pgs(self) -> int:
        return self._pgs_with("scrubbing")

    @property
    def clean_pgs(self) -> int:
        """PGs that are active and clean, whatever else they do (scrubbing, remapped)."""
        return sum(n for state, n in self.pgs_by_state.items() if {"active", "clean"} <= set(state.split("+")))

    @property
    def all_clean(self) -> bool:
        return self.mgr_available and self.clean_pgs == self.num_pgs

    def background_work(self) -> tuple[str, ...]:
        """What the cluster does besides serving clients, one phrase each; () when nothing."""
        words = ("scrubbing", "recovering", "recovery_wait", "backfilling", "backfill_wait", "peering")
        found = [f"{count} PGs {word}" for word in words if (count := self._pgs_with(word))]
        if self.degraded_objects:
            found.append(f"{self.degraded_objects} objects degraded")
        if self.misplaced_objects:
            found.append(f"{self.misplaced_objects} objects misplaced")
        return tuple(found)

    def _pgs_with(self, word: str) -> int:
        return sum(n for state, n in self.pgs_by_state.items() if word in state.split("+"))

    @staticmethod
    def read(answer: Answer) -> ClusterStatus:
        """Raises MalformedAnswer."""
        health, pgmap, osdmap = answer.at("health"), answer.at("pgmap"), answer.at("osdmap")
        if osdmap.get("osdmap") is not None:  # releases before Octopus nest it once more
            osdmap = osdmap.at("osdmap")
        checks = health.get("checks")
        return ClusterStatus(
            fsid=answer.at("fsid").text(),
            health=health.at("status").text(),
            checks=MappingProxyType(
                {}
                if checks is None
                else {name: checks.at(name).at("summary").at("message").text() for name in checks.fields()}
            ),
            pgs_by_state=MappingProxyType(
                {
                    state.at("state_name").text(): state.at("count").integer()
                    for state in pgmap.at("pgs_by_state").items()
                }
            ),
            num_pgs=pgmap.at("num_pgs").integer(),
            num_osds=osdmap.at("num_osds").integer(),
            num_up_osds=osdmap.at("num_up_osds").integer(),
            num_in_osds=osdmap.at("num_in_osds").integer(),
            mgr_available=answer.at("mgrmap").at("available").flag(),
            degraded_objects=pgmap.integer_or_zero("degraded_objects"),
            degraded_ratio=pgmap.number_or_zero("degraded_ratio"),
            misplaced_objects=pgmap.integer_or_zero("misplaced_objects"),
            misplaced_ratio=pgmap.number_or_zero("misplaced_ratio"),
            recovering_objects_per_s=pgmap.number_or_zero("recovering_objects_per_sec"),
            recovering_bytes_per_s=pgmap.number_or_zero("recovering_bytes_per_sec"),
            inactive_pgs_ratio=pgmap.number_or_zero("inactive_pgs_ratio"),
            unfound_objects=pgmap.integer_or_zero("unfound_objects"),
            quorum=tuple(name.text() for name in answer.at("quorum_names").items()),
            total_bytes=pgmap.integer_or_zero("bytes_total"),
        )


@dataclass(frozen=True, slots=True)
class PoolDetail:
    """One pool. `kind` is "replicated" or "erasure"; `raw` the whole record as Ceph gives it."""

    pool_id: int
    name: str
    kind: str
    size: int
    min_size: int
    crush_rule: int
    pg_num: int
    pg_num_target: int
    pgp_num: int
    pgp_num_target: int
    autoscale_mode: str
    erasure_profile: str
    ec_overwrites: bool
    applications: tuple[str, ...]
    raw: Mapping[str, Json]

    @staticmethod
    def read(answer: Answer) -> PoolDetail:
        """Raises MalformedAnswer."""
        kinds = {1: "replicated", 3: "erasure"}
        number = answer.at("type").integer()
        pg_num, pgp_num = answer.at("pg_num").integer(), answer.at("pg_placement_num").integer()
        return PoolDetail(
            pool_id=(answer.get("pool_id") or answer.at("pool")).integer(),
            name=answer.at("pool_name").text(),
            kind=kinds.get(number, f"type {number}"),
            size=answer.at("size").integer(),
            min_size=answer.at("min_size").integer(),
            crush_rule=answer.at("crush_rule").integer(),
            pg_num=pg_num,
            pg_num_target=answer.integer_or_zero("pg_num_target") or pg_num,
            pgp_num=pgp_num,
            pgp_num_target=answer.integer_or_zero("pg_placement_num_target") or pgp_num,
            autoscale_mode=_text_or(answer, "pg_autoscale_mode", "off"),
            erasure_profile=_text_or(answer, "erasure_code_profile", ""),
            ec_overwrites="ec_overwrites" in answer.at("flags_names").text().split(","),
            applications=tuple(answer.at("application_metadata").fields()),
            raw=MappingProxyType(answer.fields()),
        )


@dataclass(frozen=True, slots=True)
class PoolPlacement:
    """The states of one pool's PGs: state → count, of `pg_num` in all."""

    pgs_by_state: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.pgs_by_state.values())

    @property
    def clean(self) -> int:
        return sum(n for state, n in self.pgs_by_state.items() if {"active", "clean"} <= set(state.split("+")))

    def shown(self) -> str:
        """`24 active+clean, 8 creating+peering`, most frequent first."""
        ordered = sorted(self.pgs_by_state.items(), key=lambda item: (-item[1], item[0]))
        return ", ".join(f"{count} {state}" for state, count in ordered) or "no PGs yet"


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """One RBD image. `data_pool` is None when the data lives beside the metadata."""

    name: str
    image_id: str
    size_bytes: int
    object_order: int
    data_pool: str | None
    features: tuple[str, ...]

    @staticmethod
    def read(answer: Answer) -> ImageInfo:
        """Raises MalformedAnswer."""
        data_pool, features = answer.get("data_pool"), answer.get("features")
        image_id = answer.get("id")
        return ImageInfo(
            name=answer.at("name").text(),
            image_id="" if image_id is None else image_id.text(),
            size_bytes=answer.at("size").integer(),
            object_order=answer.at("order").integer(),
            data_pool=None if data_pool is None else data_pool.text(),
            features=() if features is None else tuple(f.text() for f in features.items()),
        )


@dataclass(frozen=True, slots=True)
class ImageUsage:
    """What `rbd du` says of one image: bytes provisioned, and bytes in objects that exist."""

    provisioned_bytes: int
    used_bytes: int

    @property
    def full(self) -> bool:
        return self.used_bytes >= self.provisioned_bytes


@dataclass(frozen=True, slots=True)
class ClusterSpace:
    """What `ceph df` says. Raw bytes count every copy; `pool_max_avail_bytes` is what clients can still write to each
    pool, copies and the full ratio already reckoned in. `total_bytes` is 0 until the manager has heard from OSDs."""

    total_bytes: int
    available_bytes: int
    pool_max_avail_bytes: Mapping[str, int]

    @staticmethod
    def read(answer: Answer) -> ClusterSpace:
        """Raises MalformedAnswer."""
        stats = answer.at("stats")
        return ClusterSpace(
            total_bytes=stats.at("total_bytes").integer(),
            available_bytes=stats.at("total_avail_bytes").integer(),
            pool_max_avail_bytes=MappingProxyType(
                {
                    pool.at("name").text(): int(pool.at("stats").at("max_avail").number())
                    for pool in answer.at("pools").items()
                }
            ),
        )


@dataclass(frozen=True, slots=True)
class CacheSetting:
    """librbd's cache as a client with this conf opens this image. `sources` maps each option to where it was set:
    config (defaults, conf file, or the monitors' database), pool, or image."""

    enabled: bool
    policy: str | None
    options: Mapping[str, str]
    sources: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AutoscaleState:
    """One pool as the PG autoscaler sees it. `settled`: it has nothing to change now."""

    pool: str
    mode: str
    pg_num_target: int
    pg_num_final: int
    would_adjust: bool

    @property
    def settled(self) -> bool:
        return self.mode != "on" or not self.would_adjust


@dataclass(frozen=True, slots=True)
class BalancerState:
    active: bool
    mode: str


class Ceph:
    """One cluster, asked through one host.

    `conf` is the configuration file on that host (None: Ceph's own search). `commands` maps a tool to the words
    that run it; a tool not in it is run by its own name. `env` is added to every call.
    Every method raises CephError.
    """

    def __init__(
        self,
        transport: Transport,
        conf: str | None = None,
        commands: Mapping[str, tuple[str, ...]] | None = None,
        *,
        timeout_s: float = 60.0,
        connect_timeout_s: int = 15,
        env: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.transport = transport
        self.conf = conf
        self._commands = dict(commands or {})
        self._timeout_s = timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._env = env
        self._fsid: str | None = None
        self.shortcut: Callable[[tuple[str, ...]], Answer | None] | None = None
        """A quicker way to ask `ceph` (StatusFeed), None as answer when it does not serve."""

    # How a call is made

    def command(self, tool: str, *words: str, timeout_s: float | None = None, json: bool = True) -> Command:
        """The command of one call, for whoever runs it in another way."""
        argv = [*self._commands.get(tool, (tool,))]
        if self.conf is not None:
            argv += ["--conf", self.conf]
        limit = self._timeout_s if timeout_s is None else timeout_s
        if tool == "ceph":
            argv += ["--connect-timeout", str(max(1, min(self._connect_timeout_s, int(limit))))]
        # Should this program be killed, nobody else ends a call that waits for monitors that never answer.
        argv += ["--rados-mon-op-timeout", str(max(1, int(limit)))]
        if tool != "ceph":  # these speak to OSDs, which may be gone while the monitors answer
            argv += ["--rados-osd-op-timeout", str(max(1, int(limit)))]
        # The format goes last but before nothing else: `rbd` takes it only after its subcommand.
        argv += ["--format", "json", *words] if json and tool == "ceph" else [*words]
        if json and tool != "ceph":
            argv += ["--format", "json"]
        return Command(tuple(argv), self._env, limit)

    def run(self, tool: str, *words: str, timeout_s: float | None = None, json: bool = True) -> Completed:
        """One call that must succeed."""
        completed = self.transport.run(self.command(tool, *words, timeout_s=timeout_s, json=json))
        if not completed.ok:
            raise failure(completed)
        return completed

    def ask(self, tool: str, *words: str, read: Callable[[Answer], T], timeout_s: float | None = None) -> T:
        """One call whose JSON answer `read` takes apart. It only looks: it may go the way of `shortcut`."""
        if tool == "ceph" and self.shortcut is not None and (answer := self.shortcut(words)) is not None:
            with contextlib.suppress(MalformedAnswer):
                return read(answer)
        completed = self.run(tool, *words, timeout_s=timeout_s)
        try:
            return read(Answer.parse(completed.stdout))
        except MalformedAnswer as error:
            raise CephError(f"{completed.host}: {completed.command.shown()}: malformed answer: {error}") from None

    def raw(self, *words: str) -> Json:
        """A `ceph` command's answer as it is, for the archive."""
        return self.ask("ceph", *words, read=lambda answer: answer.value)

    # The cluster

    def fsid(self) -> str:
        """Asked once: a conf file leads to one cluster."""
        if self._fsid is None:
            self._fsid = self.ask("ceph", "fsid", read=lambda answer: answer.at("fsid").text())
        return self._fsid

    def status(self, timeout_s: float | None = None) -> ClusterStatus:
        return self.ask("ceph", "status", read=ClusterStatus.read, timeout_s=timeout_s)

    def versions(self) -> Mapping[str, Mapping[str, int]]:
        """Daemon kind → version → number of daemons."""

        def read(answer: Answer) -> Mapping[str, Mapping[str, int]]:
            return {
                kind: {version: answer.at(kind).at(version).integer() for version in answer.at(kind).fields()}
                for kind in answer.fields()
            }

        return self.ask("ceph", "versions", read=read)

    def osd_tree(self) -> Json:
        return self.raw("osd", "tree")

    def osd_dump(self) -> Json:
        return self.raw("osd", "dump")

    def df(self) -> Json:
        return self.raw("df")

    def space(self) -> ClusterSpace:
        return self.ask("ceph", "df", read=ClusterSpace.read)

    def ask_as(self, client_name: str, pool: str | None) -> None:
        """One small question as another client: reading the list of images in `pool`, or only the monitors (None)."""
        if pool is None:
            self.run("ceph", "--id", client_name, "fsid")
        else:
            self.run("rbd", "ls", "--pool", pool, "--id", client_name)

    def config_dump(self) -> Json:
        """The monitors' configuration database; values whose name looks like a secret are replaced."""

        def read(answer: Answer) -> Json:
            return [
                {**option.fields(), "value": "<secret>"}
                if _SECRET_NAME.search(option.at("name").text())
                else option.fields()
                for option in answer.items()
            ]

        return self.ask("ceph", "config", "dump", read=read)

    def balancer_status(self) -> BalancerState:
        return self.ask(
            "ceph",
            "balancer",
            "status",
            read=lambda answer: BalancerState(answer.at("active").flag(), answer.at("mode").text()),
        )

    def balancer_on(self) -> None:
        self.run("ceph", "balancer", "on")

    def balancer_off(self) -> None:
        self.run("ceph", "balancer", "off")

    def autoscale_status(self) -> tuple[AutoscaleState, ...]:
        def read(answer: Answer) -> tuple[AutoscaleState, ...]:
            return tuple(
                AutoscaleState(
                    pool.at("pool_name").text(),
                    pool.at("pg_autoscale_mode").text(),
                    pool.at("pg_num_target").integer(),
                    pool.at("pg_num_final").integer(),
                    pool.at("would_adjust").flag(),
                )
                for pool in answer.items()
            )

        return self.ask("ceph", "osd", "pool", "autoscale-status", read=read)

    # CRUSH

    def failure_domains(self, kind: str, device_class: str | None = None, root: str = "default") -> int | None:
        """How many buckets of that kind (osd, host, rack, …) hold an OSD that is in, below `root`; None: no such root.

        With a device class only OSDs of that class count.
        """

        def read(answer: Answer) -> int | None:
            nodes = {node.at("id").integer(): node for node in answer.at("nodes").items()}
            root_ids = [i for i, node in nodes.items() if node.at("name").text() == root]
            if not root_ids:
                return None

            def holds_osd(node: Answer) -> bool:
                if node.at("type").text() == "osd":
                    named = node.get("device_class")
                    right_class = device_class is None or (named is not None and named.text() == device_class)
                    return right_class and node.at("reweight").number() > 0
                return any(holds_osd(child) for child in children(node))

            def children(node: Answer) -> list[Answer]:
                below = node.get("children")
                return [] if below is None else [nodes[i.integer()] for i in below.items() if i.integer() in nodes]

            def count(node: Answer) -> int:
                if node.at("type").text() == kind:
                    return int(holds_osd(node))
                return sum(count(child) for child in children(node))

            return sum(count(nodes[i]) for i in root_ids)

        return self.ask("ceph", "osd", "tree", read=read)

    def crush_rules(self) -> Mapping[str, Json]:
        """Rule name → the rule as Ceph gives it."""
        return self.ask(
            "ceph",
            "osd",
            "crush",
            "rule",
            "dump",
            read=lambda answer: {rule.at("rule_name").text(): rule.value for rule in answer.items()},
        )

    def crush_rule_remove(self, name: str) -> None:
        self.run("ceph", "osd", "crush", "rule", "rm", name)

    # Erasure code profiles

    def erasure_profile_names(self) -> tuple[str, ...]:
        return self.ask(
            "ceph",
            "osd",
            "erasure-code-profile",
            "ls",
            read=lambda answer: tuple(name.text() for name in answer.items()),
        )

    def erasure_profile(self, name: str) -> Mapping[str, str]:
        return self.ask(
            "ceph",
            "osd",
            "erasure-code-profile",
            "get",
            name,
            read=lambda answer: {key: answer.at(key).text() for key in answer.fields()},
        )

    def erasure_profiles(self) -> Mapping[str, Mapping[str, str]]:
        return {name: self.erasure_profile(name) for name in self.erasure_profile_names()}

    def erasure_profile_set(self, name: str, values: Mapping[str, str]) -> None:
        """Never with --force: an existing profile of another meaning is an error."""
        pairs = [f"{key}={value}" for key, value in values.items()]
        self.run("ceph", "osd", "erasure-code-profile", "set", name, *pairs)

    def erasure_profile_remove(self, name: str) -> None:
        self.run("ceph", "osd", "erasure-code-profile", "rm", name)

    # Pools

    def pools(self) -> Mapping[str, PoolDetail]:
        """Name → pool."""

        def read(answer: Answer) -> Mapping[str, PoolDetail]:
            return {pool.name: pool for pool in map(PoolDetail.read, answer.items())}

        return self.ask("ceph", "osd", "pool", "ls", "detail", read=read)

    def pool_create_replicated(
        self, name: str, pg_num: int, pgp_num: int, *, rule: str | None = None, size: int | None = None
    ) -> None:
        words = ["osd", "pool", "create", name, str(pg_num), str(pgp_num), "replicated"]
        words += [rule] if rule else []
        words += ["--size", str(size)] if size else []
        self.run("ceph", *words, timeout_s=120.0)

    def pool_create_erasure(
        self, name: str, pg_num: int, pgp_num: int, profile: str, *, rule: str | None = None
    ) -> None:
        words = ["osd", "pool", "create", name, str(pg_num), str(pgp_num), "erasure", profile]
        words += [rule] if rule else []
        self.run("ceph", *words, timeout_s=120.0)

    def pool_set(self, name: str, key: str, value: str) -> None:
        self.run("ceph", "osd", "pool", "set", name, key, value)

    def pool_set_size_one(self, name: str) -> None:
        self.run("ceph", "osd", "pool", "set", name, "size", "1", "--yes-i-really-mean-it")

    def pool_enable_application(self, name: str, application: str) -> None:
        self.run("ceph", "osd", "pool", "application", "enable", name, application)

    def pool_delete(self, name: str) -> None:
        self.run("ceph", "osd", "pool", "rm", name, name, "--yes-i-really-really-mean-it", timeout_s=120.0)

    def pool_placement(self, name: str) -> PoolPlacement:
        """The states of the pool's PGs as the manager last heard them."""

        def read(answer: Answer) -> PoolPlacement:
            # Older releases answer with the bare list.
            listed = answer.at("pg_stats") if isinstance(answer.value, dict) else answer
            states: dict[str, int] = {}
            for pg in listed.items():
                state = pg.at("state").text()
                states[state] = states.get(state, 0) + 1
            return PoolPlacement(MappingProxyType(states))

        return self.ask("ceph", "pg", "ls-by-pool", name, read=read)

    def osd_map(self, pool: str, object_name: str) -> Json:
        """Where an object would be placed."""
        return self.raw("osd", "map", pool, object_name)

    # Images. Pool and image are always separate words: `P/I` would read a name with '/' or '@' as something else.

    def images(self, pool: str) -> tuple[str, ...]:
        return self.ask("rbd", "ls", "--pool", pool, read=lambda answer: tuple(name.text() for name in answer.items()))

    def image(self, pool: str, image: str) -> ImageInfo:
        """Raises NoSuchThing when there is none."""
        return self.ask("rbd", "info", "--pool", pool, "--image", image, read=ImageInfo.read)

    def image_create(
        self, pool: str, image: str, size_bytes: int, object_order: int, data_pool: str | None = None
    ) -> None:
        words = ["create", "--pool", pool, "--image", image, "--size", f"{size_bytes}B"]
        words += ["--object-size", f"{1 << object_order}B"]
        words += ["--data-pool", data_pool] if data_pool is not None else []
        self.run("rbd", *words, json=False)

    def image_remove(self, pool: str, image: str, timeout_s: float = 600.0) -> None:
        self.run("rbd", "rm", "--pool", pool, "--image", image, "--no-progress", timeout_s=timeout_s, json=False)

    def image_usage(self, pool: str, image: str, timeout_s: float = 300.0) -> ImageUsage:
        """Of the image's head, snapshots not counted."""

        def read(answer: Answer) -> ImageUsage:
            heads = [entry for entry in answer.at("images").items() if entry.get("snapshot") is None]
            if len(heads) != 1:
                raise MalformedAnswer(f"{len(heads)} images listed where one was asked for")
            return ImageUsage(heads[0].at("provisioned_size").integer(), heads[0].at("used_size").integer())

        return self.ask("rbd", "du", "--pool", pool, "--image", image, read=read, timeout_s=timeout_s)

    def image_watchers(self, pool: str, image: str) -> tuple[str, ...]:
        """Addresses of the clients that have the image open."""
        return self.ask(
            "rbd",
            "status",
            "--pool",
            pool,
            "--image",
            image,
            read=lambda answer: tuple(w.at("address").text() for w in answer.at("watchers").items()),
        )

    def librbd_cache(self, pool: str, image: str, client_name: str = "admin") -> CacheSetting:
        """librbd's cache as this conf, the monitors' database, the pool and the image together set it.

        `rbd config image list` is the one command that applies all of them, overrides in the conf file included.
        """

        def read(answer: Answer) -> CacheSetting:
            listed = {option.at("name").text(): option for option in answer.items()}
            if "rbd_cache" not in listed:
                raise MalformedAnswer("rbd_cache is missing")
            cache = {name: option for name, option in listed.items() if name.startswith("rbd_cache")}
            options = {name: option.at("value").text() for name, option in cache.items()}
            return CacheSetting(
                enabled=options["rbd_cache"] == "true",
                policy=options.get("rbd_cache_policy"),
                options=MappingProxyType(options),
                sources=MappingProxyType({name: option.at("source").text() for name, option in cache.items()}),
            )

        words = ("config", "image", "list", "--pool", pool, "--image", image, "--id", client_name)
        return self.ask("rbd", *words, read=read)


def failure(completed: Completed) -> CephError:
    """The error for a call that failed, with a hint when its cause is known."""
    hint = _hint(completed)
    kind = NoSuchThing if _says_absent(completed) else CephError
    return kind(_without_log_stamps(completed.problem()) + (f"; {hint}" if hint else ""))


def _says_absent(completed: Completed) -> bool:
    text = completed.stderr.decode(errors="replace")
    return completed.status == NO_FILE and ("error opening" in text or "ENOENT" in text)


_LOG_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+\S* [0-9a-f]{8,16} +-?\d+ ")


def _without_log_stamps(text: str) -> str:
    return _LOG_STAMP.sub("", text)


def _hint(completed: Completed) -> str | None:
    text = completed.stderr.decode(errors="replace")
    for pattern, status, hint in _HINTS:
        if (status is None or completed.status == status) and re.search(pattern, text):
            return hint
    if completed.timed_out:
        return _NO_MONITORS
    return None


_NO_MONITORS = (
    "no monitor (or no OSD) answered in time: check that the cluster runs, that `mon host` in the conf file names it, "
    "and that this host can reach it"
)
_NO_KEYRING = "no keyring was found: name it with `keyring = FILE` in the conf file, and check that it may be read"
_NOT_ALLOWED = "the cluster refuses this client: check its key in the keyring, and its rights with `ceph auth get`"

# Pattern in stderr, exit status (None: any), hint. The first that fits counts.
_HINTS: tuple[tuple[str, int | None, str], ...] = (
    (r"conf_read_file|unable to open config file", None, "the conf file cannot be read: check the path given with -c"),
    (r"no keyring found|unable to find a keyring", None, _NO_KEYRING),
    (r"timed out|failed to fetch mon config", None, _NO_MONITORS),
    (r"couldn't connect to the cluster[\s\S]*\(2\)", None, _NO_KEYRING),
    (r"mon_max_pg_per_osd", None, "lower pg_size in the pool profile, or raise mon_max_pg_per_osd"),
    (
        r"mon_allow_pool_size_one|pool size as 1",
        None,
        "set mon_allow_pool_size_one = true on the cluster, or replication: 2 or more",
    ),
    (r"mon_allow_pool_delete", None, "set mon_allow_pool_delete = true on the cluster, or delete the pool yourself"),
    (r"permission denied|[Pp]ermission denied|EACCES|access denied|Operation not permitted", None, _NOT_ALLOWED),
    (r"error opening pool", None, "no such pool"),
    (r"", 127, "the program is not there: install ceph-common on this host, or name it with `<tool>_cmd` in the plan"),
    (r"", 126, "the program may not be executed: check its rights"),
)


def _text_or(answer: Answer, name: str, default: str) -> str:
    field = answer.get(name)
    return default if field is None else field.text()
