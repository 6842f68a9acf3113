# SPDX-License-Identifier: BSD-3-Clause
"""The manifests of packaging/kubernetes: valid, consistent, with arguments that ucached takes."""

import os
import pathlib

import kubernetes_validate
import pytest
import yaml
from wire import wire_to

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "packaging" / "kubernetes"
FILES = sorted(path.name for path in FOLDER.glob("*.yaml"))


def resources(name):
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def one(name, kind):
    (found,) = [resource for resource in resources(name) if resource["kind"] == kind]
    return found


def container(name):
    (found,) = one(name, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    return found


@pytest.mark.parametrize("name", FILES)
def test_schema(name):
    """Each resource is one of Kubernetes, without a field that it does not have."""
    for resource in resources(name):
        kubernetes_validate.validate(resource, kubernetes_validate.latest_version(), strict=True)


def test_the_schema_finds_errors():
    broken = one("ucached.yaml", "StatefulSet")
    broken["spec"]["template"]["spec"]["containers"][0]["readinesProbe"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize("name", FILES)
def test_parts_fit_together(name):
    pods = one(name, "StatefulSet")["spec"]
    service = one(name, "Service")
    labels = pods["template"]["metadata"]["labels"]
    assert pods["serviceName"] == service["metadata"]["name"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == pods["selector"]["matchLabels"] == labels
    budget = one(name, "PodDisruptionBudget")["spec"]
    assert budget["selector"]["matchLabels"] == labels and budget["maxUnavailable"] == 1
    assert {"startupProbe", "readinessProbe"} <= container(name).keys()
    assert [port["containerPort"] for port in container(name)["ports"]] == [11211]
    mounts = {mount["name"] for mount in container(name).get("volumeMounts", [])}
    assert mounts == {volume["name"] for volume in pods["template"]["spec"].get("volumes", [])}


def test_the_memory_fits():
    """The limit covers -m and what the process needs besides, the volume the file of -e."""
    args = container("ucached.yaml")["args"]
    megabytes = int(args[args.index("-m") + 1])
    limit = container("ucached.yaml")["resources"]["limits"]["memory"]
    assert limit.endswith("Mi") and int(limit[:-2]) >= megabytes + 100
    pod = one("ucached.yaml", "StatefulSet")["spec"]["template"]["spec"]
    (volume,) = [volume for volume in pod["volumes"] if "emptyDir" in volume]
    assert volume["emptyDir"]["medium"] == "Memory"
    assert megabytes < int(volume["emptyDir"]["sizeLimit"][:-2]) <= int(limit[:-2])


def test_the_capabilities_are_those_of_the_unit():
    """What AF_XDP needs stands in packaging/meson.build for the unit of systemd."""
    units = (FOLDER.parent / "meson.build").read_text()
    (needed,) = [line.split("'")[3].split() for line in units.splitlines()
                 if "CAP_BPF" in line]  # fmt: skip
    added = container("ucached-xdp.yaml")["securityContext"]["capabilities"]["add"]
    assert set(added) - {"SETUID", "SETGID"} == {name.removeprefix("CAP_") for name in needed}


def test_a_server_takes_the_arguments(start_server, tmp_path):
    """The arguments of the manifest, with its list of servers, start a server."""
    servers = tmp_path / "servers"
    servers.write_text(one("ucached.yaml", "ConfigMap")["data"]["servers"])
    paths = {"/cache/items": f"/dev/shm/{tmp_path.name}-{os.getpid()}-items",
             "cluster_file=/etc/ucached/servers": f"cluster_file={servers}"}  # fmt: skip
    args = [paths.get(word, word) for word in container("ucached.yaml")["args"]]
    assert sum(word in paths.values() for word in args) == 2
    try:
        server = start_server("sock", *args)
        with wire_to(server) as wire:
            reply = wire.replies(b"config get cluster\r\n")
        names = [f"ucached-{number}.ucached||11211" for number in range(3)]
        assert reply.split(b"\n")[2].decode() == " ".join(names)
    finally:
        pathlib.Path(paths["/cache/items"]).unlink(missing_ok=True)
