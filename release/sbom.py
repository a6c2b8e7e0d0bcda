# Copyright the aclgrad authors. SPDX-License-Identifier: Apache-2.0
"""sbom.py VERSION TIME FILE…: a bill of materials in CycloneDX's JSON of what the released files hold."""

import datetime
import hashlib
import pathlib
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

# As Debian packages them; libraries, and what is compiled in. THIRD_PARTY.md says where each is used.
DEBIAN = {
    "libtbb12": "Apache-2.0",
    "libhwy1": "Apache-2.0 OR BSD-3-Clause",
    "libfmt9": "MIT",
    "nlohmann-json3-dev": "MIT",
}


def debian_version(package: str) -> str:
    command = ["dpkg-query", "--show", "--showformat=${Version}\n", package]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[0]


def component(name: str, version: str, licence: str, kind: str, namespace: str | None = None) -> Component:
    return Component(
        name=name, version=version, type=ComponentType.LIBRARY, licenses=[LicenseExpression(licence)],
        purl=PackageURL(kind, namespace, name, version), bom_ref=f"{kind}/{name}@{version}",
    )  # fmt: skip


def released(path: pathlib.Path) -> Component:
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return Component(name=path.name, type=ComponentType.FILE, bom_ref=path.name,
                     hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)])  # fmt: skip


def main() -> None:
    version, time, *files = sys.argv[1:]
    project = component("aclgrad", version, "Apache-2.0", "pypi")
    project.supplier = OrganizationalEntity(name="the aclgrad authors")
    parts = [component(name, debian_version(name), licence, "deb", "debian") for name, licence in DEBIAN.items()]
    parts.append(component("nanobind", nanobind.__version__, "BSD-3-Clause", "pypi"))
    bom = Bom(components=[*parts, *(released(pathlib.Path(file)) for file in files)])
    bom.metadata.component = project
    bom.metadata.timestamp = datetime.datetime.fromtimestamp(int(time), datetime.UTC)
    # Two builds of one commit have the same number.
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, f"aclgrad-{version}-{time}")
    bom.register_dependency(project, parts)
    print(JsonV1Dot5(bom).output_as_string(indent=2))


if __name__ == "__main__":
    main()
