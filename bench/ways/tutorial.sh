# What the tutorials tell for Ubuntu 20.04, typed one after the other as root: NVIDIA's .run driver
# with DKMS, CUDA's local installer, cuDNN's tarball copied into CUDA's tree, the environment in
# .bashrc, pip. In front of it stand the variables that bench/ubuntu.py writes: addresses, releases,
# the kernel (a container runs on one that is not its own), and what proves the host at the end.
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
mkdir -p ~/Downloads
cd ~/Downloads

# The driver.
printf 'blacklist nouveau\noptions nouveau modeset=0\n' >/etc/modprobe.d/blacklist-nouveau.conf
update-initramfs -u
apt-get -q update
apt-get -q -y install build-essential dkms linux-headers-generic
wget --no-verbose --ca-certificate="$ca" "$driver_url"
sh "${driver_url##*/}" --silent --dkms --no-questions --kernel-name="$kernel"

# CUDA.
wget --no-verbose --ca-certificate="$ca" "$pin_url"
mv "${pin_url##*/}" /etc/apt/preferences.d/cuda-repository-pin-600
wget --no-verbose --ca-certificate="$ca" "$cuda_url"
dpkg -i "${cuda_url##*/}"
apt-key add "$cuda_directory/7fa2af80.pub"
apt-get -q update
apt-get -q -y install "cuda-toolkit-$cuda_dashed"

# cuDNN.
wget --no-verbose --ca-certificate="$ca" "$cudnn_url"
tar -xzf "${cudnn_url##*/}"
cp -P cuda/include/cudnn*.h "$cuda/include"
cp -P cuda/lib64/libcudnn* "$cuda/lib64"
chmod a+r "$cuda"/include/cudnn*.h "$cuda"/lib64/libcudnn*

# The environment, for later shells and for this one.
cat >>~/.bashrc <<END
export PATH=$cuda/bin\${PATH:+:\${PATH}}
export LD_LIBRARY_PATH=$cuda/lib64:$cuda/extras/CUPTI/lib64\${LD_LIBRARY_PATH:+:\${LD_LIBRARY_PATH}}
END
export PATH="$cuda/bin:$PATH"
export LD_LIBRARY_PATH="$cuda/lib64:$cuda/extras/CUPTI/lib64"

# TensorFlow. The two bounds are not in the tutorials: without them it does not import today.
apt-get -q -y install "$python-venv"
"$python" -m venv ~/tensorflow
~/tensorflow/bin/pip install --quiet --no-input "tensorflow==$tensorflow" 'numpy<2' 'protobuf<3.20'
echo "BENCH installed $(date +%s.%N)"

# The proof that `provision` gives in the same place.
nvidia-smi --query-gpu=driver_version,name --format=csv,noheader
nvcc --version
XLA_FLAGS=--xla_gpu_cuda_data_dir=$cuda ~/tensorflow/bin/python -c "$devices"
CUDA_VISIBLE_DEVICES=-1 ~/tensorflow/bin/python -c "$fit"
echo "BENCH proven $(date +%s.%N)"
