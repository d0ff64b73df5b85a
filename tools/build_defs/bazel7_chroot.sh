#!/usr/bin/env bash
# Analyses, builds and tests this tree and examples/bazel_embedder with Bazel 7, in a chroot of Debian sid.
#
#   tools/build_defs/bazel7_chroot.sh FOLDER ARCHIVE [TARGET...]
#
# FOLDER is made on first use (3 GB; 8 GB with the installed locks), and may be removed afterwards. ARCHIVE contains Python
# 3.13 (third_party/README.md), since sid may have newer versions only. All targets are analysed; TARGETs are tested (default:
# //...). Needs root and debootstrap. `make bazel7-test` calls it.
set -euo pipefail

readonly SID=$(realpath -m "$1") ARCHIVE=$(realpath "$2")
shift 2
readonly TARGETS=("${@:-//...}")
readonly TREE=$(cd "$(dirname "$0")/../.." && pwd)
# The archive's interpreter loads these libraries.
readonly LIBRARIES=(libbz2-1.0 libexpat1 libffi8 liblzma5 libsqlite3-0 libssl3t64 zlib1g)
# Debian's Bazel contains the modules that we use. Empty modules replace the unused ones that those require.
readonly EMPTY_MODULES=(apple_support buildozer protobuf zlib)

# Runs a shell command in the chroot. Mounts and processes are in namespaces of their own, so they end with it. The
# environment has what pip needs to reach the index.
inside() {
  unshare --mount --pid --fork --kill-child bash -euc '
    root=$1; shift
    mount --make-rprivate /
    mount --rbind /dev "$root/dev"
    mount -t proc proc "$root/proc"
    mkdir -p "$root/certificates" "$root/build"
    mount --bind -o ro /etc/ssl/certs "$root/certificates"
    exec chroot "$root" env -i HOME=/build PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
      ${PIP_INDEX_URL:+"PIP_INDEX_URL=$PIP_INDEX_URL"} PIP_CERT=/certificates/ca-certificates.crt \
      ${HTTPS_PROXY:+"HTTPS_PROXY=$HTTPS_PROXY"} ${HTTP_PROXY:+"HTTP_PROXY=$HTTP_PROXY"} bash -euc "$1"
  ' inside "$SID" "$1"
}

# Prints the mirror of Debian that this machine uses.
mirror() {
  apt-get indextargets --format '$(REPO_URI) $(CODENAME)' 'Created-By: Packages' 'Origin: Debian' 'Component: main' |
    awk '$2 !~ /-/ { print $1; exit }'
}

make_chroot() {
  local mirror
  mirror=$(mirror)
  [[ $mirror ]] || { echo "apt knows no mirror of Debian; add one to its sources and run apt-get update" >&2; exit 1; }
  [[ -e $SID/var/lib/dpkg/status && ! -e $SID/debootstrap ]] || debootstrap --variant=minbase sid "$SID" "$mirror"
  cp /etc/resolv.conf "$SID/etc/resolv.conf"
  # A mirror may be behind by more than the two weeks for which an index of sid is valid.
  inside "apt-get -o Acquire::Check-Valid-Until=false update -qq
    apt-get install -qq -y --no-install-recommends bazel-bootstrap ${LIBRARIES[*]} >/dev/null
    touch /made"
}

# Copies the tracked files, since two versions of Bazel must not share one checkout.
copy_tree() {
  rm -rf "$SID/src"
  mkdir -p "$SID/src"
  (cd "$TREE" && git ls-files -z | xargs -0 cp --parents -t "$SID/src")
  cp "$ARCHIVE" "$SID/python.tar.gz"
}

[[ -e $SID/made ]] || make_chroot
copy_tree

flags=(
  --repo_env=GRAFTAX_PYTHON_ARCHIVE=/python.tar.gz
  --repo_env=GRAFTAX_PYTHON_SHA256="$(sha256sum "$ARCHIVE" | cut -d' ' -f1)"
)
for name in "${EMPTY_MODULES[@]}"; do
  flags+=(--override_module="$name=/src/third_party/bazel/offline/$name")
done
inside "cd /src
  bazel --version
  echo '== analysis of all targets'
  bazel --output_base=/build/by_name build ${flags[*]} --config=by_name //...
  bazel --output_base=/build/by_name shutdown || true
  echo '== examples/bazel_embedder'
  (cd examples/bazel_embedder; bazel test ${flags[*]} //...; bazel shutdown || true)
  echo '== tests: ${TARGETS[*]}'
  bazel test ${flags[*]} ${TARGETS[*]}"
