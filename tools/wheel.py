#!/usr/bin/env python3
"""wheel.py - a wheel of a folder: tools/wheel.py FOLDER VERSION PLATFORM README OUT prints the file's name.
FOLDER/hilbert is the package, FOLDER/licences goes beside its metadata. The same folder gives the same bytes."""
import base64
import hashlib
import os
import stat
import sys
import zipfile

SUMMARY = "Trains language models, and any PyTorch module, that are larger than the memory of the machine"


def metadata(version, readme):
    with open(readme, encoding="utf-8") as file:
        text = file.read()
    return ("Metadata-Version: 2.1\nName: hilbert\n"
            f"Version: {version}\nSummary: {SUMMARY}\nLicense: Apache-2.0\nRequires-Python: >=3.9\n"
            "Provides-Extra: torch\nRequires-Dist: torch>=2.1; extra == 'torch'\n"
            f"Description-Content-Type: text/markdown\n\n{text}")


def main():
    folder, version, platform, readme, out = sys.argv[1:]
    info = f"hilbert-{version}.dist-info"
    files = {}
    for top, target in (("hilbert", "hilbert"), ("licences", f"{info}/licenses")):
        root = os.path.join(folder, top)
        for path in sorted(os.path.join(at, name) for at, _, names in os.walk(root) for name in names):
            with open(path, "rb") as file:
                mode = 0o755 if os.stat(path).st_mode & stat.S_IXUSR else 0o644
                files[f"{target}/{os.path.relpath(path, root)}"] = (file.read(), mode)
    files[f"{info}/METADATA"] = (metadata(version, readme).encode(), 0o644)
    files[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: hilbert\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n".encode(), 0o644)
    files[f"{info}/entry_points.txt"] = (b"[console_scripts]\nhilbert = hilbert._program:main\n", 0o644)
    record = ""
    for name, (data, _) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = ((record + f"{info}/RECORD,,\n").encode(), 0o644)
    wheel = os.path.join(out, f"hilbert-{version}-py3-none-{platform}.whl")
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, (data, mode) in files.items():
            entry = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            entry.external_attr = (stat.S_IFREG | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    print(wheel)


if __name__ == "__main__":
    main()
