# Sourced by all job scripts of this folder; README.md says how to use them. A script names its resources, then calls
# `ethernet` or `infiniband`, and last `train FLAG...`.
set -uo pipefail

die() {
  echo "launch/slurm: $*" >&2
  exit 2
}

[[ -n ${SLURM_JOB_ID:-} ]] || die "start this with sbatch"
sotto="${SOTTO:-build/release/bin/sotto}"
[[ -x $sotto ]] || sotto="$(command -v sotto)" || die "$sotto is not there: build it, or say where it is in SOTTO"

export OMP_NUM_THREADS="${OMP_NUM_THREADS:-${SLURM_CPUS_PER_TASK:-1}}"
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-passive}" # spinning threads would take cores from other ranks
step=(srun)
[[ -z ${SLURM_CPUS_PER_TASK:-} ]] || step+=("--cpus-per-task=$SLURM_CPUS_PER_TASK") # srun does not take it from sbatch
network=()

# Job steps handle SIGUSR1. If the whole job gets it, this script must survive, since it waits for the steps.
trap : USR1

# Messages over TCP, through Gloo or, with BACKEND=mpi, through MPI. INTERFACE is the network interface, such as eth0.
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

# Messages through MPI and UCX. DEVICE is the port, such as mlx5_0:1; UCX_TLS lists the transports that UCX may use.
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

# Like train, on the tasks that are there, as long as there are LEAST of them: elastic LEAST FLAG... The coordinator runs
# next to this script, and its status says whether the run has come to its end.
elastic() {
  local place="$(hostname):$((15000 + SLURM_JOB_ID % 15000))" coordinator status
  "$sotto" coordinator --ranks "$1:$SLURM_NTASKS" --listen "$place" &
  coordinator=$!
  shift
  sleep 2 # until then one that cannot begin has ended; ranks would look for it for ten minutes
  kill -0 "$coordinator" 2> /dev/null || { wait "$coordinator"; exit; }
  step+=(--no-kill --kill-on-bad-exit=0 --wait=0)
  network+=(--coordinator "$place")
  (train "$@")
  status=$?
  ((status == 0)) || kill "$coordinator" 2> /dev/null
  wait "$coordinator" && status=0
  exit "$status"
}

# Trains on all tasks of the job. The learning rate grows with the examples per step (--lr-scale). The run folder is
# TRAIN_DIR, or a folder named after the job. If it holds a checkpoint, training resumes from it, as in requeued jobs.
train() {
  local run="${TRAIN_DIR:-runs/slurm/$SLURM_JOB_NAME-$SLURM_JOB_ID}" status=0
  mkdir -p "$run" || die "the run folder cannot be made"
  "${step[@]}" "$sotto" train --lr-scale ${network[@]+"${network[@]}"} "$@" --train-dir "$run" --resume || status=$?
  if ((status == 128 + 10)); then # SIGUSR1: all ranks have ended
    compgen -G "$run/model_step_*" > /dev/null || die "the time limit is too short: there is no checkpoint to resume from"
    echo "launch/slurm: out of time; job $SLURM_JOB_ID goes back into the queue" >&2
    scontrol requeue "$SLURM_JOB_ID" || die "the job cannot be requeued; submit it again with TRAIN_DIR=$run"
  fi
  exit "$status"
}
