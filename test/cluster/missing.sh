#!/bin/sh
# Says what this machine lacks for a node with real Pods, a line for each thing; nothing where it lacks nothing.
if [ "$(uname)" != Linux ] || [ "$(id -u)" != 0 ]; then
	echo "it needs Linux, and root"
	exit 0
fi
for program in containerd:containerd ctr:containerd runc:runc iptables:iptables ip:iproute2 curl:curl unshare:util-linux; do
	command -v "${program%:*}" >/dev/null || echo "no ${program%:*}: apt-get install ${program#*:}"
done
plugins=
for dir in /usr/lib/cni /usr/libexec/cni /opt/cni/bin; do
	[ ! -x "$dir/ptp" ] || plugins=$dir
done
[ -n "$plugins" ] || echo "no CNI plugins: apt-get install containernetworking-plugins"

# Being root is not all of it: containers have it too, with fewer rights.
if ! unshare --mount --pid --net --uts --ipc --fork mount --make-rprivate / 2>/dev/null; then
	echo "no new namespaces and mounts: it needs CAP_SYS_ADMIN"
elif ! unshare --net sh -c 'ip link add probe0 type veth peer name probe1 && iptables -t nat -L' >/dev/null 2>&1; then
	echo "no network of its own: it needs CAP_NET_ADMIN, and veth, iptables and nat in the kernel"
fi
awk '$3 ~ /^cgroup/ {print $2}' /proc/self/mounts | while read -r hierarchy; do
	probe=$hierarchy/spillway-probe-$$
	mkdir "$probe" 2>/dev/null && rmdir "$probe" || echo "no control groups: $hierarchy cannot be written"
done
