# What the job scripts of this folder have in common; README.md says how they are used. A script names its resources, the
# network, and what it trains: `train FLAG...` is its last command.
set -uo pipefail

die() {
  echo "launch/slurm: $*" >&2
  exit 2
}

[[ -n ${SLURM_JOB_ID:-} ]] || die "start this with sbatch"
sotto="${SOTTO:-build/release/bin/sotto}"
[[ -x $sotto ]] || sotto="$(command -v sotto)" || die "$sotto is not there: build it, or say where it is in SOTTO"

export OMP_NUM_THREADS="${OMP_NUM_THREADS:-${SLURM_CPUS_PER_TASK:-1}}"
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}" # threads that spin would take the cores from one another
step=(srun)
[[ -z ${SLURM_CPUS_PER_TASK:-} ]] || step+=("--cpus-per-task=$SLURM_CPUS_PER_TASK") # srun does not take it from sbatch
network=()

# Signals are for the steps. One that the whole job gets must not end the script that waits for them.
trap : USR1

# Messages over TCP: through Gloo, or with BACKEND=mpi through MPI. INTERFACE is the network interface, as eth0.
ethernet() {
  [[ ${BACKEND:-gloo} == gloo || $BACKEND == mpi ]] || die "BACKEND=$BACKEND: gloo or mpi"
  if [[ ${BACKEND:-gloo} == gloo ]]; then
    [[ -z ${INTERFACE:-} ]] || network+=(--interface "$INTERFACE")
    return
  fi
  over_mpi
  export OMPI_MCA_pml=ob1 OMPI_MCA_btl=tcp,vader,self # between hosts, within one, and to oneself
  [[ -z ${INTERFACE:-} ]] || export OMPI_MCA_btl_tcp_if_include="$INTERFACE"
}

# Messages through MPI and UCX. DEVICE is the port, as mlx5_0:1; UCX_TLS what UCX may use: verbs, and memory in a host.
infiniband() {
  [[ ${BACKEND:-mpi} == mpi ]] || die "BACKEND=$BACKEND: InfiniBand is reached through MPI"
  over_mpi
  export OMPI_MCA_pml=ucx UCX_TLS="${UCX_TLS:-rc,sm,self}"
  [[ -z ${DEVICE:-} ]] || export UCX_NET_DEVICES="$DEVICE"
}

over_mpi() {
  network+=(--backend mpi)
  step+=("--mpi=${MPI:-pmix}")
}

# Trains on all tasks of the job, at the rate that grows with the examples of a step. The run folder is TRAIN_DIR, or one that the job has to itself; where it holds a
# checkpoint the run goes on from there: so does a job that was requeued, for whatever reason.
train() {
  local run="${TRAIN_DIR:-runs/slurm/$SLURM_JOB_NAME-$SLURM_JOB_ID}" status=0
  mkdir -p "$run" || die "the run folder cannot be made"
  "${step[@]}" "$sotto" train --lr-scale ${network[@]+"${network[@]}"} "$@" --train-dir "$run" --resume || status=$?
  if ((status == 128 + 10)); then # SIGUSR1: all ranks have ended
    compgen -G "$run/model_step_*" > /dev/null || die "the time limit is too short: there is no checkpoint to go on from"
    echo "launch/slurm: out of time; job $SLURM_JOB_ID goes back into the queue" >&2
    scontrol requeue "$SLURM_JOB_ID" || die "the job cannot be requeued; submit it again with TRAIN_DIR=$run"
  fi
  exit "$status"
}
