# SPDX-License-Identifier: Apache-2.0
"""logs.py FOLDER: logs of training jobs with invented times, in the form that Megatron-LM, Megatron Bridge, NeMo,
torchtitan, DeepSpeed's pipelines, nanotron, LitGPT and Composer print, with the prefixes of srun, torchrun and NeMo-Run.
Standard library only."""

import os
import sys


def write(folder, name, lines, end="\n"):
    with open(os.path.join(folder, name), "w", encoding="utf-8", newline="") as out:
        out.write("\n".join(lines) + end)


def arguments(values):
    """The list of Megatron-LM's print_args."""
    return ["------------------------ arguments ------------------------",
            *(f"  {key} {'.' * (48 - len(key))} {values[key]}" for key in sorted(values)),
            "-------------------- end of arguments ---------------------"]


def iteration(number, last, batch, milliseconds, tflops, clock="2026-03-02 09:00:00.123456"):
    """A line of Megatron-LM's training_log, with --log-throughput."""
    return (f" [{clock}] iteration {number:8d}/{last:8d} | consumed samples: {number * batch:12d} | elapsed time per "
            f"iteration (ms): {milliseconds:.1f} | throughput per GPU (TFLOP/s/GPU): {tflops:.1f} | learning rate: "
            f"{1e-4:.6E} | global batch size: {batch:5d} | lm loss: {7.9 - number / 100:.6E} | loss scale: 1.0 | grad "
            f"norm: {1.234:.3f} | number of skipped iterations: {0:3d} | number of nan iterations: {0:3d} |")


MIXTRAL = {"world_size": 64, "tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 4,
           "virtual_pipeline_model_parallel_size": 2, "num_layers_per_virtual_pipeline_stage": 4,
           "context_parallel_size": 1, "data_parallel_size": 8, "expert_model_parallel_size": 8,
           "expert_tensor_parallel_size": 1, "num_layers": 32, "hidden_size": 4096, "num_attention_heads": 32,
           "num_experts": 8, "seq_length": 4096, "micro_batch_size": 1, "global_batch_size": 256,
           "sequence_parallel": True, "use_distributed_optimizer": True, "recompute_granularity": "selective",
           "optimizer_cpu_offload": False, "train_iters": 500000, "wandb_exp_name": ""}


def world(values):
    return (f"using world size: {values['world_size']}, data-parallel size: {values['data_parallel_size']}, "
            f"context-parallel size: {values['context_parallel_size']}, hierarchical context-parallel sizes: None, "
            f"tensor-model-parallel size: {values['tensor_model_parallel_size']}, pipeline-model-parallel size: "
            f"{values['pipeline_model_parallel_size']}")


def megatron_start(values):
    return [world(values), *arguments(values), "> initialized tensor model parallel with size 2",
            " > number of parameters on (tensor, pipeline) model parallel rank (0, 0): 1478500352"]


def megatron_memory(rank, number, mebibytes):
    return (f"[Rank {rank}] (after {number} iterations) memory (MB) | allocated: {mebibytes - 9000:.2f} | max allocated: "
            f"{mebibytes - 500:.2f} | reserved: {mebibytes:.2f} | max reserved: {mebibytes:.2f}")


def srun(task, lines):
    return [f"{task:2d}: {line}" for line in lines]


def megatron_srun(folder):
    """64 ranks under srun --label, every 20 iterations; killed at 80, restarted from a checkpoint at 60, cut off."""
    first = srun(0, megatron_start(MIXTRAL))
    first += srun(63, [iteration(20, 500000, 256, 9214.3, 88.0)])
    first += srun(0, ["Number of parameters in transformer block in billions: 46.44",
                      "Total number of parameters in billions: 46.70"])
    first += srun(0, [megatron_memory(0, 20, 61234.0)]) + srun(48, [megatron_memory(48, 20, 58110.0)])
    first += srun(63, [iteration(40, 500000, 256, 6350.2, 127.0), iteration(60, 500000, 256, 6342.8, 127.1),
                       iteration(80, 500000, 256, 6349.0, 127.0)])
    first += [" 5: slurmstepd: error: *** STEP 4711.0 ON node7 CANCELLED AT 2026-03-02T09:31:10 ***"]
    second = srun(0, megatron_start(MIXTRAL))
    second += srun(63, [iteration(80, 500000, 256, 8010.4, 100.0), iteration(100, 500000, 256, 6344.5, 127.1),
                        iteration(120, 500000, 256, 6347.1, 127.1)])
    line = srun(63, [iteration(140, 500000, 256, 6346.0, 127.1)])[0]
    second += [line[:line.index("6346.0") + 2]]
    write(folder, "megatron-srun.log", first + second, end="")


def megatron_oom(folder):
    """Without recomputation it runs out of memory, with it it trains."""
    values = {**MIXTRAL, "world_size": 8, "pipeline_model_parallel_size": 1, "data_parallel_size": 4, "num_experts": None,
              "virtual_pipeline_model_parallel_size": None, "num_layers_per_virtual_pipeline_stage": None,
              "expert_model_parallel_size": 1, "expert_tensor_parallel_size": None, "global_batch_size": 32,
              "recompute_granularity": None}
    failure = ("[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total "
               "capacity of 79.14 GiB of which 1.19 GiB is free. Including non-PyTorch memory, this process has 77.94 "
               "GiB memory in use.")
    lines = megatron_start(values) + ["[rank3]: Traceback (most recent call last):", failure]
    lines += megatron_start({**values, "recompute_granularity": "full"})
    lines += [iteration(n, 100, 32, 2100 + 7000 / n, 190.0) for n in range(1, 11)]
    lines.insert(-9, megatron_memory(0, 1, 70112.0))
    write(folder, "megatron-oom.log", lines)


def bridge(folder):
    """Megatron Bridge: settings that differ from Megatron's, then a line of its own before each of Megatron's."""
    rule, dash = "=" * 70, "-" * 70
    lines = [rule, "Configuration Summary (Non-Default Values vs Megatron Core)", rule,
             "\n[optimizer] Non-default values (vs Mcore OptimizerConfig):",
             "  use_distributed_optimizer: True  (Mcore default: False)",
             "\n[model] Non-default values (vs Mcore TransformerConfig):",
             "  context_parallel_size: 2  (Mcore default: 1)", "  num_layers: 32  (Mcore default: 0)",
             "  pipeline_model_parallel_size: 2  (Mcore default: 1)", "  sequence_parallel: True  (Mcore default: False)",
             "  tensor_model_parallel_size: 4  (Mcore default: 1)", "\n" + dash, "Other Configuration Values:", dash,
             "\n[train]:", "  global_batch_size: 128", "  micro_batch_size: 1", "  train_iters: 50",
             "\n[dataset]:", "  seq_length: 8192", "\n" + rule]
    for n in range(5, 51, 5):
        seconds = 3.4 + 9.0 / n
        lines += [f"Step Time : {seconds:.2f}s GPU utilization: {512.3:.1f}MODEL_TFLOP/s/GPU",
                  iteration(n, 50, 128, 1000 * seconds, 512.3, "2026-03-02 09:00:00")]
        if n == 5:
            lines += ["[Rank 0] (after 5 iterations) memory (GB) | mem-allocated-gigabytes: 31.204 | "
                      "mem-max-allocated-gigabytes: 49.876 | mem-max-reserved-gigabytes: 53.102 | mem-alloc-retires: 0"]
    write(folder, "bridge.log", lines)


def titan(text):
    return f"[rank7]:[titan] 2026-02-11 01:22:11,584 - root - INFO - {text}"


def titan_step(number, memory, rate):
    """torchtitan's line with colors."""
    return titan(f"\x1b[31mstep: {number:2}  \x1b[32mloss: {7.74407:8.5f}  \x1b[38;2;180;60;0mgrad_norm: {1.4604:7.4f}  "
                 f"\x1b[38;2;54;234;195mmemory: {memory:5.2f}GiB(64.14%)  \x1b[34mtps: {rate:,}  \x1b[36mtflops: {401.5:,.2f}"
                 f"  \x1b[35mmfu: {40.6:.2f}%\x1b[39m")


def torchtitan(folder):
    """FSDP 4 x TP 2 of Llama 3 8B, logged at step 1 and then at every tenth."""
    lines = [titan("Starting job: Llama 3 8B training"),
             titan("Building 2-D device mesh with ['dp_shard', 'tp'], [4, 2]"),
             titan("Building llama3 8B with TransformerModelArgs(_enforced='This field is used to enforce all fields have "
                   "defaults.', dim=4096, n_layers=32, n_heads=32, n_kv_heads=8, vocab_size=128256)"),
             titan("CUDA capacity: NVIDIA H100 with 95.04GiB memory"),
             titan("\x1b[34mModel llama3 8B \x1b[31msize: 8,030,261,248 total parameters\x1b[39m"),
             titan("Applied Tensor Parallelism to the model"),
             titan("Applied full activation checkpointing to the model"), titan("Applied FSDP to the model"),
             titan("Trainer is initialized with local batch size 1, global batch size 8, gradient accumulation steps 2, "
                   "sequence length 8192, total steps 1000 (warmup 200)."),
             titan("Training starts at step 1."), titan_step(1, 58.2, 512)]
    lines += [titan_step(n, 61.37, 6200 + n % 3) for n in range(10, 101, 10)]
    lines.insert(-2, titan("\x1b[33mvalidate step: 80  \x1b[32mloss:  6.1234  \x1b[38;2;54;234;195mmemory: 30.00GiB(31.57%)"
                           "  \x1b[34mtps: 21,000\x1b[39m"))
    write(folder, "torchtitan-llama.log", lines)


def torchtitan_tokens(folder):
    """A later version, which counts tokens, with an interleaved pipeline."""
    lines = [titan("Building device mesh with parallelism: pp=2, dp_replicate=2, dp_shard=2, cp=2, tp=1, ep=4"),
             titan("CUDA capacity: NVIDIA B200 with 178.35GiB memory"),
             titan("Model deepseek_v3 16B size: 15,706,484,224 total parameters"),
             titan("Applied SelectiveAC activation checkpointing to the model"),
             titan("Using pipeline schedule Interleaved1F1B with 8 microbatches and 4 stages."),
             titan("Trainer is initialized with 32768 tokens per DP rank, 131072 tokens per train step, gradient "
                   "accumulation steps 1, maximum context length 4096, total steps 100 (warmup 20)"),
             titan("Training starts at step 1")]
    lines += [titan(f"step: {n:2}  loss: {7.74407:8.5f}  grad_norm: {1.4604:7.4f}  memory: 77.25GiB(43.31%)  "
                    f"tps: {4000 + 10 * min(n, 3):,}  tflops: 55.50  mfu: N/A") for n in range(1, 7)]
    write(folder, "torchtitan-tokens.log", lines)


def deepspeed_pipe(folder):
    """Two stages of four replicas, launched by pdsh."""
    info = "[2026-03-02 09:00:00,001] [INFO]"
    lines = ["Using topology: {" + ", ".join(f"ProcessCoord(pipe={p}, data={d}): {4 * p + d}" for p in range(2)
                                            for d in range(4)) + "}",
             f"{info} [engine.py:98:__init__] CONFIG: micro_batches=8 micro_batch_size=2",
             f"{info} [config.py:678:print]   train_batch_size ............. 64",
             f"{info} [config.py:678:print]   train_micro_batch_size_per_gpu  2",
             f"{info} [config.py:678:print]   gradient_accumulation_steps .. 8",
             f"{info} [config.py:678:print]   world_size ................... 4",
             f"{info} [config.py:678:print]   zero_optimization_stage ...... 1",
             f"{info} [engine.py:158:__init__] RANK=0 STAGE=0 LAYERS=13 [0, 13) STAGE_PARAMS=203515904 (203.516M) "
             "TOTAL_PARAMS=406286336 (406.286M) UNIQUE_PARAMS=354871296 (354.871M)"]
    lines += [f"steps: {n} loss: {9 - n / 50:0.4f} iter time (s): {0.8 + 2 / n:0.3f} samples/sec: {64 / (0.8 + 2 / n):0.3f}"
              for n in range(10, 101, 10)]
    write(folder, "deepspeed-pipe.log", [f"worker-0: {line}" if line.startswith("[") else line for line in lines])


def nemo1(folder):
    """NeMo 1: YAML, groups of ranks, and a bar that is drawn again and again."""
    info = "[NeMo I 2026-03-02 09:00:00"
    lines = [f"{info} exp_manager:396] \n\n************** Experiment configuration ***********",
             f"{info} exp_manager:397] ", "    name: megatron_gpt", "    trainer:", "      devices: 8", "      num_nodes: 2",
             "      accelerator: gpu", "    model:", "      micro_batch_size: 1", "      global_batch_size: 128",
             "      tensor_model_parallel_size: 4", "      pipeline_model_parallel_size: 2",
             "      virtual_pipeline_model_parallel_size: null", "      encoder_seq_length: 4096", "      num_layers: 40",
             "      sequence_parallel: true", "      activations_checkpoint_granularity: selective", "      data:",
             "        validation_ds:", "          micro_batch_size: 4", "          global_batch_size: 32", "      optim:",
             "        name: distributed_fused_adam",
             "Initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/16", "distributed_backend=nccl",
             "All distributed processes registered. Starting with 16 processes",
             f"{info} megatron_init:314] Rank 0 has data parallel group : [0, 4]",
             f"{info} megatron_init:265] Rank 0 has context parallel group: [0]",
             f"{info} megatron_init:268] Rank 0 has tensor model parallel group: [0, 1, 2, 3]",
             f"{info} megatron_init:300] Rank 0 has pipeline model parallel group: [0, 8]"]
    bar = "\r".join(f"Epoch 0: : {n:3d}%|{'█' * (n // 10):<10}| {n}/100 [{n // 60:02d}:{n % 60:02d}<10:00, v_num=0, "
                    f"reduced_train_loss={9 - n / 50:.3f}, global_step={n - 1.0:.3f}, consumed_samples={128.0 * n:.1f}, "
                    f"train_step_timing in s={5.2 + 30 / n ** 2:.3f}]" for step in range(1, 21) for n in (step, step))
    write(folder, "nemo1.log", lines + [bar])


def nemo2(folder):
    """NeMo 2 under NeMo-Run: only the rank groups reveal the settings."""
    lines = ["[NeMo I 2026-03-02 09:00:00 nemo_logging:393] Rank 0 has data parallel group : [0, 4]",
             "[NeMo I 2026-03-02 09:00:00 nemo_logging:393] Rank 0 has context parallel group: [0, 2]",
             "[NeMo I 2026-03-02 09:00:00 nemo_logging:393] Rank 0 has tensor model parallel group: [0, 1]",
             "[NeMo I 2026-03-02 09:00:00 nemo_logging:393] Rank 0 has pipeline model parallel group: [0]",
             "All distributed processes registered. Starting with 8 processes",
             " > number of parameters on (tensor, pipeline) model parallel rank (0 ,0): 4015394816"]
    lines += [f"Training epoch 0, iteration {n}/99 | lr: {1.5e-7 * (n + 1):.4} | global_batch_size: 128 | global_step: {n} | "
              f"max_memory_reserved: 127785762816 | max_memory_allocated: 115792977920 | reduced_train_loss: 11.96 | "
              f"train_step_timing in s: {6.06 + 20 / (n + 1) ** 2:.4} | TFLOPS_per_GPU: 1.249e+03 | "
              f"consumed_samples: {128 * (n + 1)}" for n in range(20)]
    write(folder, "nemo2.log", [f"pretraining/0 [default0]:{line}" for line in lines])


def human(number):
    """nanotron's human_format: three digits and a suffix."""
    number = float(f"{number:.3g}")
    for suffix in ("", "K", "M", "B"):
        if abs(number) < 1000:
            break
        number /= 1000
    return f"{number:f}".rstrip("0").rstrip(".") + suffix


NANOTRON = """\
Config(general=GeneralArgs(project='debug',
                           run='tiny_llama_20261130_154647_local',
                           seed=42,
                           ignore_sanity_checks=True),
       parallelism=ParallelismArgs(dp=4,
                                   pp=2,
                                   tp=2,
                                   pp_engine=<nanotron.parallel.pipeline_parallel.engine.OneForwardOneBackwardPipelineEngine object at 0x7fd2b02ca9d0>,
                                   tp_mode=<TensorParallelLinearMode.REDUCE_SCATTER: 2>,
                                   tp_linear_async_communication=True,
                                   recompute_layer=True,
                                   tp_recompute_allgather=True,
                                   expert_parallel_size=1,
                                   context_parallel_size=1),
       tokens=TokensArgs(sequence_length=4096,
                         train_steps=2000,
                         micro_batch_size=3,
                         batch_accumulation_per_replica=8,
                         limit_test_batches=0),
       optimizer=OptimizerArgs(optimizer_factory=AdamWOptimizerArgs(adam_eps=1e-08,
                                                                    name='adamW'),
                               zero_stage=1,
                               weight_decay=0.01),
       data_stages=[DatasetStageArgs(name='Stable Training Stage',
                                     start_training_step=1,
                                     data=DataArgs(dataset=None,
                                                   seed=42,
                                                   num_loading_workers=1),
                                     sequence_length=4096)],
       s3_upload=None)"""


def nanotron(folder):
    """nanotron of 2026: settings as pprint prints them, and steps whose global_batch_size is in tokens."""
    tokens = 96 * 4096
    lines = ["Config:", *NANOTRON.splitlines(), "Model Config:", "LlamaConfig(bos_token_id=1,",
             "            hidden_size=2048,", "            pretraining_tp=1)", "Start training",
             "mbs: 3 | grad_accum: 8 | cp: 1 | sequence_length: 4096 | global_batch_size: 96 | train_steps: 2000 | "
             "start_iteration_step: 0 | consumed_tokens_total: 0"]
    for n in range(1, 13):
        seconds = 1.23 + 30 / n ** 3
        lines.append(f"iteration: {n} / 2000 | consumed_tokens: {human(n * tokens)} | time_per_iteration_ms: "
                     f"{human(1000 * seconds)} | tokens_per_sec: {human(tokens / seconds)} | tokens_per_sec_per_gpu: "
                     f"{human(tokens / seconds / 16)} | global_batch_size: {human(tokens)} | grad_norm: 1.2 | lm_loss: 11.2 | "
                     "lr: 3e-05 | model_tflops_per_gpu: 201 | eta: 0:41:00")
    prefix = "11/30/2026 10:00:00 [INFO|DP=0|PP=0|TP=0|node-1]: "
    write(folder, "nanotron.log", [prefix + line for line in lines])


def nanotron_2024(folder):
    """nanotron 0.4 on one GPU, with samples as global_batch_size, and memory."""
    lines = ["Config(general=GeneralArgs(project='debug', run='one', seed=42),",
             "       parallelism=ParallelismArgs(dp=1, pp=1, tp=1, pp_engine=<object>,",
             "                                   tp_mode=<TensorParallelLinearMode.ALL_REDUCE: 1>),",
             "       optimizer=OptimizerArgs(zero_stage=0))", "Model Config:",
             "[Start training] datetime: 2026-03-02 09:00:00.123 | mbs: 4 | grad_accum: 2 | global_batch_size: 8 | "
             "sequence_length: 256 | train_steps: 10 | start_iteration_step: 0 | consumed_train_samples: 0"]
    lines += [f"iteration: {n} / 10 | consumed_tokens: {human(n * 2048)} | elapsed_time_per_iteration_ms: "
              f"{human(212 + 900 / n ** 3)} | tokens_per_sec: 9.66K | tokens_per_sec_per_gpu: 9.66K | global_batch_size: 8 "
              f"| lm_loss: 11.2 | lr: 3e-05 | model_tflops_per_gpu: 20 | hardware_tflops_per_gpu: 20 | grad_norm: 0.5"
              + (" | cuda_memory_allocated: 1.1G | cuda_max_memory_reserved: 2.31G" if n < 5 else "")
              for n in range(1, 11)]
    write(folder, "nanotron-2024.log", ["03/02/2026 09:00:00 [INFO|DP=0|PP=0|TP=0]: " + line for line in lines])


def litgpt_pass(number, passes, milliseconds):
    step, last = number // passes, number % passes == 0
    return (f"Epoch 1 | iter {number} step {step} | loss train: {3 - number / 50:.3f}, val: n/a | iter time: "
            f"{milliseconds:.2f} ms{' (step)' if last else ''}")


def litgpt(folder):
    """Fine-tuning with LitGPT 0.5.13: four passes a step, each of which is printed."""
    lines = [" 'train': TrainArgs(save_interval=200,", "                    log_interval=1,",
             "                    global_batch_size=16,", "                    micro_batch_size=4,",
             "                    lr_warmup_steps=100)}", "Seed set to 1337",
             "Number of trainable parameters: 1,100,048,384", "Validating ..."]
    lines += [litgpt_pass(n, 4, 120 + (40 if n % 4 == 0 else 0) + (900 if n == 1 else 0)) for n in range(1, 25)]
    lines.insert(-8, "iter 16: val loss 2.4012, val time: 2312.22 ms")
    lines += ["| Memory Usage                                                                 ",
              "| - Memory Used               :  21.30 GB                                        "]
    write(folder, "litgpt.log", lines)


def litgpt_pretrain(folder):
    """Pretraining: only the last pass of each step is printed."""
    lines = ["{'devices': 1, 'num_nodes': 1, 'train': {'global_batch_size': 16, 'log_interval': 1, 'micro_batch_size': 4}}",
             "Total parameters: 1,100,048,384"]
    lines += [litgpt_pass(n, 4, 160) + " remaining time: 0:10:00" for n in range(4, 41, 4)]
    write(folder, "litgpt-pretrain.log", lines)


def composer(folder):
    """LLM Foundry: the console logger of Composer 0.32, whose SpeedMonitor has a window of three batches."""
    lines = ["*" * 30, "Config:", "composer_version: 0.32.1", "num_gpus_per_node: 8", "num_nodes: 2", "rank_zero_seed: 17",
             "global_train_batch_size: 256", "device_train_microbatch_size: 8", "max_seq_len: 2048", "fsdp_config:",
             "  activation_checkpointing: true", "  sharding_strategy: FULL_SHARD", "*" * 30]
    for n in range(1, 13):
        rate = 0.4321 - 0.2 / n ** 3
        lines += [f"[batch={n}/4800]:", "\t Train time/epoch: 0", f"\t Train time/batch: {n - 1}",
                  f"\t Train time/token: {(n - 1) * 524288}", "\t Train memory/peak_reserved_mem: 38.1230",
                  "\t Train memory/alloc_retries: 0", "\t Train trainer/device_train_microbatch_size: 8",
                  "\t Train loss/train/total: 10.9011"]
        if n >= 3:
            lines += [f"\t Train throughput/batches_per_sec: {rate:.4f}",
                      f"\t Train throughput/samples_per_sec: {256 * rate:.4f}",
                      f"\t Train throughput/device/batches_per_sec: {rate / 16:.4f}",
                      f"\t Train throughput/tokens_per_sec: {524288 * rate:.4f}"]
        lines += ["\t Train time/train: 0.0123"]
    lines += ["[Eval batch=1/10] Eval on eval data:", "\t Eval throughput/samples_per_sec: 900.0000"]
    write(folder, "composer.log", lines)


def main(folder):
    for make in (megatron_srun, megatron_oom, bridge, torchtitan, torchtitan_tokens, deepspeed_pipe, nemo1, nemo2, nanotron,
                 nanotron_2024, litgpt, litgpt_pretrain, composer):
        make(folder)


if __name__ == "__main__":
    main(sys.argv[1])
