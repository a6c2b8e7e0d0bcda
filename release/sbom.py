# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""sbom.py VERSION TIME FILE…: a bill of materials in CycloneDX's JSON, with the parts of each released file."""

import datetime
import hashlib
import pathlib
import re
import subprocess
import sys
import uuid

import nanobind
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.contact import OrganizationalEntity
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot5
from packageurl import PackageURL

# As Debian packages them. THIRD_PARTY.md says where each is used.
BUNDLED = {"libtbb12": "Apache-2.0"}
COMPILED_IN = {"libhwy1": "Apache-2.0 OR BSD-3-Clause", "libfmt9": "MIT", "nlohmann-json3-dev": "MIT"}
ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def debian_package(name: str, architecture: str, licence: str) -> Component:
    command = ["dpkg-query", "--show", "--showformat=${Architecture} ${Version}\n"]
    listing = subprocess.run([*command, name], capture_output=True, text=True, check=True).stdout
    versions = dict(line.split() for line in listing.splitlines())
    kind = "all" if "all" in versions else architecture
    return component(PackageURL("deb", "debian", name, versions[kind], {"arch": kind}), licence)


def parts_of_nanobind() -> list[Component]:
    headers = pathlib.Path(nanobind.__file__).parent / "ext/robin_map/include/tsl/robin_growth_policy.h"
    version = ".".join(re.findall(r"define TSL_RH_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", headers.read_text()))
    return [
        component(PackageURL("pypi", None, "nanobind", nanobind.__version__), "BSD-3-Clause"),
        component(PackageURL("github", "tessil", "robin-map", f"v{version}"), "MIT"),
    ]


def component(purl: PackageURL, licence: str) -> Component:
    return Component(
        name=purl.name, version=purl.version, type=ComponentType.LIBRARY, licenses=[LicenseExpression(licence)],
        purl=purl, bom_ref=purl.to_string(),
    )  # fmt: skip


def parts_of(file: str) -> list[Component]:
    """The Debian package depends on Debian's oneTBB. The source package and the descriptions hold nothing of others."""
    architecture = next((ours for name, ours in ARCHITECTURES.items() if re.search(f"[-_]{name}\\.", file)), None)
    if architecture is None or not file.endswith((".whl", ".tar.gz", ".deb")):
        return []
    packages = COMPILED_IN if file.endswith(".deb") else BUNDLED | COMPILED_IN
    parts = [debian_package(name, architecture, licence) for name, licence in packages.items()]
    return parts + parts_of_nanobind() if file.endswith(".whl") else parts


def released(path: pathlib.Path) -> Component:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Component(name=path.name, type=ComponentType.FILE, bom_ref=path.name,
                     hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)])  # fmt: skip


def main() -> None:
    version, time, *files = sys.argv[1:]
    project = component(PackageURL("pypi", None, "aclgrad", version), "Apache-2.0")
    project.supplier = OrganizationalEntity(name="the aclgrad authors")
    bom = Bom()
    bom.metadata.component = project
    bom.metadata.timestamp = datetime.datetime.fromtimestamp(int(time), datetime.UTC)
    # Two builds of one commit have the same number.
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, f"aclgrad-{version}-{time}")
    artifacts = [released(pathlib.Path(file)) for file in files]
    for artifact in artifacts:
        parts = parts_of(artifact.name)
        bom.components.update([artifact, *parts])
        bom.register_dependency(artifact, parts)
    bom.register_dependency(project, artifacts)
    print(JsonV1Dot5(bom).output_as_string(indent=2))


if __name__ == "__main__":
    main()
