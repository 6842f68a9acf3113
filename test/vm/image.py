#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Makes what guests boot from, out of Debian packages that are downloaded but not installed.

    test/vm/image.py [FOLDER]      default: build/vm

    qemu/      QEMU of Debian's backports; without it the installed one is used
    modules/   the kernel modules that guests load (lib/modules of the kernel package)
    vmlinux    the kernel
    initrd     busybox, init and the modules that the root file system needs
    ready      the versions; written last. While it is newer than this file, only the initrd is made

A guest's root file system is that of this machine, read only, below a temporary one (init), so
the packages of tools/bootstrap are there too.
"""

import lzma
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
FOLDER = HERE.parents[1] / "build" / "vm"
QEMU_PACKAGES = ("qemu-system-x86", "qemu-system-common", "qemu-system-data")

# For the root file system and the agent; then what the tests load.
BOOT_MODULES = ("virtio_pci", "virtio_console", "9pnet_virtio", "9p", "overlay")
MODULES = ("vfio-pci", "vfio_iommu_type1", "virtio_net", "e1000", "e1000e", "igb", "vmxnet3",
           "af_packet", "virtio-rng", "tun")  # fmt: skip


def run(*command, **options):
    """Standard output of a command that must succeed."""
    line = " ".join(map(str, command))
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, **options)
    except subprocess.TimeoutExpired as error:
        sys.exit(f"image.py: {line}: not finished after {error.timeout} s")
    if done.returncode != 0:
        sys.exit(f"image.py: {line}: {done.stderr or done.stdout}")
    return done.stdout


def download(packages, folder, *options):
    """Unpacks Debian packages into a folder."""
    with tempfile.TemporaryDirectory() as debs:
        run("apt-get", *options, "-o", "APT::Sandbox::User=root", "download", *packages, cwd=debs)
        folder.mkdir(parents=True, exist_ok=True)
        for deb in pathlib.Path(debs).glob("*.deb"):
            run("dpkg-deb", "-x", deb, folder)


# ---- QEMU ---------------------------------------------------------------------------------------


def backports_options(folder):
    """Options of apt-get with which it knows only the backports of this Debian's mirror."""
    release = dict(line.split("=", 1) for line in open("/etc/os-release") if "=" in line)
    codename = release["VERSION_CODENAME"].strip()
    mirrors = run("apt-get", "indextargets", "--format", "$(CODENAME) $(LABEL) $(REPO_URI)")
    mirror = [line.split()[2] for line in mirrors.splitlines()
              if line.split()[:2] == [codename, "Debian"]]  # fmt: skip
    if not mirror:
        return None
    keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
    (folder / "sources.list").write_text(
        f"deb [signed-by={keyring}] {mirror[0]} {codename}-backports main\n"
    )
    for name in ("lists/partial", "cache/archives/partial"):
        (folder / name).mkdir(parents=True)
    options = {"Dir::Etc::SourceList": folder / "sources.list",
               "Dir::Etc::SourceParts": "/dev/null",
               "Dir::State::Lists": folder / "lists", "Dir::Cache": folder / "cache"}  # fmt: skip
    return [word for name, value in options.items() for word in ("-o", f"{name}={value}")]


def make_qemu(folder):
    """Newer than the distribution's, if there are backports: with igb, a better vmxnet3."""
    shutil.rmtree(folder, ignore_errors=True)
    unpack_qemu(folder)
    igb = [*qemu_command(folder.parent), "-device", "igb,help"]
    shown = subprocess.run(igb, capture_output=True, text=True, timeout=60).stdout
    if "igb options" not in shown:
        sys.exit("image.py: the installed QEMU has no igb, and none of Debian's backports can be "
                 "downloaded: apt-get update of the backports shows why")  # fmt: skip


def unpack_qemu(folder):
    with tempfile.TemporaryDirectory() as apt:
        options = backports_options(pathlib.Path(apt))
        if options is None:
            return
        update = ["apt-get", *options, "-o", "APT::Sandbox::User=root", "update", "-qq"]
        if subprocess.run(update, capture_output=True, timeout=300).returncode != 0:
            return
        download(QEMU_PACKAGES, folder, *options)
    program = folder / "usr/bin/qemu-system-x86_64"
    if subprocess.run([program, "--version"], capture_output=True).returncode != 0:
        shutil.rmtree(folder)


def qemu_command(folder=FOLDER):
    """The words with which QEMU is started."""
    program = folder / "qemu/usr/bin/qemu-system-x86_64"
    if not program.exists():
        return ["qemu-system-x86_64"]
    shares = [folder / "qemu/usr/share" / name for name in ("qemu", "seabios")]
    shares += ["/usr/share/qemu", "/usr/share/seabios", "/usr/lib/ipxe/qemu"]
    return [str(program)] + [word for share in shares for word in ("-L", str(share))]


# ---- the kernel ---------------------------------------------------------------------------------


def extract_vmlinux(bzimage):
    """The ELF file in a kernel image (Documentation/arch/x86/boot.rst): it boots faster."""
    sectors = bzimage[0x1F1] or 4
    offset, length = struct.unpack_from("<II", bzimage, 0x248)
    begin = (sectors + 1) * 512 + offset
    return lzma.LZMADecompressor().decompress(bzimage[begin : begin + length])


def module_paths(tree, release, names):
    """The modules and those that they need, in the order in which they can be loaded."""
    paths = {}
    for name in names:
        shown = run("modprobe", "-d", tree, "-S", release, "--show-depends", name)
        for line in shown.splitlines():
            word, _, path = line.partition(" ")
            if word == "insmod":
                paths[pathlib.Path(path.strip())] = None
    return list(paths)


def make_kernel(folder):
    package = run("apt-cache", "depends", "linux-image-amd64").split("Depends: ")[1].split()[0]
    release = package.removeprefix("linux-image-")
    tree = folder / "kernel"
    shutil.rmtree(tree, ignore_errors=True)
    download([package], tree)
    bzimage = (tree / f"boot/vmlinuz-{release}").read_bytes()
    (folder / "vmlinux").write_bytes(extract_vmlinux(bzimage))
    run("depmod", "-b", tree, release)
    kept = folder / "modules"
    shutil.rmtree(kept, ignore_errors=True)
    base = tree / "lib/modules" / release
    for path in module_paths(tree, release, BOOT_MODULES + MODULES):
        copy = kept / "lib/modules" / release / path.relative_to(base.resolve())
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    for name in ("modules.builtin", "modules.order", "modules.builtin.modinfo"):
        shutil.copy(base / name, kept / "lib/modules" / release / name)
    run("depmod", "-b", kept, release)
    shutil.rmtree(tree)


def make_initrd(folder, release):
    modules = module_paths(folder / "modules", release, BOOT_MODULES)
    with tempfile.TemporaryDirectory() as name:
        root = pathlib.Path(name)
        for directory in ("bin", "modules"):
            (root / directory).mkdir()
        shutil.copy(shutil.which("busybox"), root / "bin/busybox")
        shutil.copy(HERE / "init", root / "init")
        (root / "init").chmod(0o755)
        for path in modules:
            shutil.copy(path, root / "modules" / path.name)
        (root / "modules/order").write_text("\n".join(path.name for path in modules) + "\n")
        files = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
        with open(folder / "initrd", "wb") as initrd:
            subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, stdout=initrd,
                           input=files.encode(), check=True, timeout=60)  # fmt: skip


def main():
    folder = pathlib.Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else FOLDER
    ready = folder / "ready"
    if not ready.exists() or ready.stat().st_mtime < pathlib.Path(__file__).stat().st_mtime:
        folder.mkdir(parents=True, exist_ok=True)
        make_qemu(folder / "qemu")
        make_kernel(folder)
    release = next((folder / "modules/lib/modules").iterdir()).name
    make_initrd(folder, release)
    version = run(*qemu_command(folder), "--version").splitlines()[0]
    ready.write_text(f"{version}\nLinux {release}\n")
    print(f"image: {version}; Linux {release}")


if __name__ == "__main__":
    main()
