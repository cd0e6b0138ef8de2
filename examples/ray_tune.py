"""Ray Tune chooses, sotto trains: python examples/ray_tune.py   (wants ray[tune], and sotto on the PATH)"""
import json, subprocess, sys

TRAINING = "--model mlp --train-size 2000 --test-size 200 --batch-size 16 --threads 1".split()  # any flags of `sotto train`

def trial(config):
    grid = [f"{name}={value}" for name, value in config.items()]  # one value for each option: a single trial
    command = ["sotto", "tune", "--grid", *grid, "--steps", "100", "--train-dir", "search", "--json", *TRAINING]
    (result,) = json.loads(subprocess.run(command, stdout=subprocess.PIPE).stdout)
    loss = float("inf") if result["score"] is None else result["score"]  # none: it diverged, or failed
    return {"loss": loss, "command": result["command"]}

if __name__ == "__main__":
    from ray import tune
    space = {"lr": tune.loguniform(0.001, 0.5), "momentum": tune.choice([0, 0.9]), "codec": tune.choice(["none", "ef | topk(0.01)"])}
    config = tune.TuneConfig(metric="loss", mode="min", num_samples=int(sys.argv[1]) if len(sys.argv) > 1 else 8)
    best = tune.Tuner(tune.with_resources(trial, {"cpu": 1}), param_space=space, tune_config=config).fit().get_best_result()
    print(f"loss {best.metrics['loss']:.3f}: {best.metrics['command']}")
