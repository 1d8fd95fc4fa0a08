# The same steps typed by hand: what somebody who knows exactly what is wanted runs as root on a
# bare host. In front of it stand the variables that bench/cold.py writes: package lists, texts of
# files, hashes. The archive of cuDNN and the requirements lie in /var/tmp already, copied over ssh.
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C

# apt: the components, the pins, then every package at its version in one transaction, held.
eval "$write_apt_files"
apt-get -q update
apt-get -q install --yes --no-install-recommends $specs python3.9 python3.9-venv ca-certificates
apt-mark hold $names

# cuDNN: checked, unpacked beside its place, then made current.
echo "$cudnn_sha256  /var/tmp/cudnn.tgz" | sha256sum --check -
install -d -m 0755 "$cudnn_root" "$cudnn_root/.new"
tar -xzf /var/tmp/cudnn.tgz --strip-components=1 --no-same-owner -C "$cudnn_root/.new"
chmod -R a+rX "$cudnn_root/.new"
mv "$cudnn_root/.new" "$cudnn_root/$cudnn_name"
ln -s "$cudnn_name" "$cudnn_root/current"
rm /var/tmp/cudnn.tgz

# The loader, the environment for shells, PAM, units and systemd itself.
eval "$write_files"
ldconfig
systemctl daemon-reexec

# TensorFlow: a venv with exactly the wheels of the requirements, each checked by its hash.
install -d -m 0755 "$(dirname "$venv")"
python3.9 -m venv "$venv"
"$venv/bin/python" -m pip install --quiet --require-hashes --no-deps --only-binary=:all: --no-input \
  --disable-pip-version-check --cache-dir "$pip_cache" --requirement /var/tmp/requirements.txt
mv /var/tmp/requirements.txt "$venv/requirements.txt"
ln -s "$(basename "$venv")" "$(dirname "$venv")/current"
echo "BENCH installed $(date +%s.%N)"

# The proof that `provision` gives in the same place.
nvidia-smi --query-gpu=driver_version,name --format=csv,noheader
nvcc --version
XLA_FLAGS=$xla "$venv/bin/python" -c "$devices"
CUDA_VISIBLE_DEVICES=-1 "$venv/bin/python" -c "$fit"
echo "BENCH proven $(date +%s.%N)"
