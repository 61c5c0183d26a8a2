/* deepspeed_keys.c - every key of ds_config.json that DeepSpeed 0.19 knows. */
#include "format/deepspeed_keys.h"

#define NUMBER(path, field, low, high)                                                             \
    {                                                                                              \
        path, HIL_DEEPSPEED_NUMBER, offsetof(hil_deepspeed_config, field), low, high, NULL         \
    }
#define READ(path)                                                                                 \
    {                                                                                              \
        path, HIL_DEEPSPEED_READ, 0, 0, 0, NULL                                                    \
    }
#define HARMLESS(path)                                                                             \
    {                                                                                              \
        path, HIL_DEEPSPEED_HARMLESS, 0, 0, 0, NULL                                                \
    }
#define ONLY_TRUE(path, why)                                                                       \
    {                                                                                              \
        path, HIL_DEEPSPEED_TRUE, 0, 0, 0, why                                                     \
    }
#define ONLY_FALSE(path, why)                                                                      \
    {                                                                                              \
        path, HIL_DEEPSPEED_FALSE, 0, 0, 0, why                                                    \
    }
#define NONE(path, why)                                                                            \
    {                                                                                              \
        path, HIL_DEEPSPEED_NONE, 0, 0, 0, why                                                     \
    }
#define SINGLE(path)                                                                               \
    {                                                                                              \
        path, HIL_DEEPSPEED_SINGLE, 0, 0, 0, "hilbert divides the work by data only"               \
    }
#define OPTIMIZER(key) "optimizer.params." key
#define SCHEDULER(key) "scheduler.params." key
#define ZERO(key) "zero_optimization." key

static const char fp32_states[] = "hilbert keeps master weights and moments in fp32";

const hil_deepspeed_key hil_deepspeed_keys[] = {
    NUMBER("train_batch_size", batch, 1, 1e9),
    NUMBER("train_micro_batch_size_per_gpu", micro_batch, 1, 1e9),
    NUMBER("gradient_accumulation_steps", accumulation, 1, 1e9),
    NUMBER("gradient_clipping", clip, 0, 1e30),

    READ("optimizer.type"),
    HARMLESS("optimizer.legacy_fusion"),
    NUMBER(OPTIMIZER("lr"), lr, 0, 1e30),
    READ(OPTIMIZER("betas")),
    NUMBER(OPTIMIZER("eps"), eps, 0, 1),
    NUMBER(OPTIMIZER("weight_decay"), weight_decay, 0, 1e6),
    READ(OPTIMIZER("adam_w_mode")),
    READ(OPTIMIZER("torch_adam")),
    ONLY_TRUE(OPTIMIZER("bias_correction"), "hilbert's AdamW always corrects the bias"),
    ONLY_FALSE(OPTIMIZER("amsgrad"), NULL),
    ONLY_FALSE(OPTIMIZER("maximize"), NULL),
    ONLY_TRUE(OPTIMIZER("fp32_optimizer_states"), fp32_states),
    NONE(OPTIMIZER("max_grad_norm"), "write gradient_clipping instead"),
    HARMLESS(OPTIMIZER("set_grad_none")),
    HARMLESS(OPTIMIZER("fused")),
    HARMLESS(OPTIMIZER("foreach")),
    HARMLESS(OPTIMIZER("capturable")),
    HARMLESS(OPTIMIZER("differentiable")),

    READ("scheduler.type"),
    NUMBER(SCHEDULER("warmup_min_lr"), warmup_low, 0, 1e30),
    NUMBER(SCHEDULER("warmup_min_ratio"), warmup_low, 0, 1e30),
    NUMBER(SCHEDULER("warmup_max_lr"), warmup_high, 0, 1e30),
    NUMBER(SCHEDULER("warmup_num_steps"), warmup, 0, 1e15),
    NUMBER(SCHEDULER("total_num_steps"), total, 1, 1e15),
    NUMBER(SCHEDULER("cos_min_ratio"), cosine_end, 0, 1e30),
    READ(SCHEDULER("warmup_type")),
    HARMLESS(SCHEDULER("last_batch_iteration")),

    READ("fp16.enabled"),
    READ("fp16.loss_scale"),
    READ("fp16.initial_scale_power"),
    READ("fp16.loss_scale_window"),
    READ("fp16.hysteresis"),
    READ("fp16.consecutive_hysteresis"),
    READ("fp16.min_loss_scale"),
    HARMLESS("fp16.auto_cast"),
    ONLY_FALSE("fp16.fp16_master_weights_and_grads", fp32_states),
    READ("bf16.enabled"),
    HARMLESS("bf16.immediate_grad_update"),
    HARMLESS("bf16.check_grad_overflow"),
    ONLY_FALSE("bf16.bf16_master_weights_and_grads", fp32_states),
    ONLY_FALSE("bf16.bf16_optimizer_states", fp32_states),
    READ("bfloat16.enabled"),
    ONLY_FALSE("amp", "write bf16 or fp16 instead"),
    ONLY_FALSE("torch_autocast", "write bf16 or fp16 instead"),
    READ("data_types.grad_accum_dtype"),
    NONE("data_types.param_dtype", "write bf16 or fp16 instead"),
    HARMLESS("data_types.buffer_dtype"),

    NUMBER(ZERO("stage"), stage, 0, 3),
    READ(ZERO("offload_optimizer.device")),
    READ(ZERO("offload_optimizer.nvme_path")),
    HARMLESS(ZERO("offload_optimizer.buffer_count")),
    HARMLESS(ZERO("offload_optimizer.pin_memory")),
    HARMLESS(ZERO("offload_optimizer.pipeline")),
    HARMLESS(ZERO("offload_optimizer.pipeline_read")),
    HARMLESS(ZERO("offload_optimizer.pipeline_write")),
    HARMLESS(ZERO("offload_optimizer.fast_init")),
    HARMLESS(ZERO("offload_optimizer.ratio")),
    HARMLESS(ZERO("offload_optimizer.super_offload")),
    HARMLESS(ZERO("offload_optimizer.cpuadam_cores_perc")),
    READ(ZERO("offload_param.device")),
    READ(ZERO("offload_param.nvme_path")),
    HARMLESS(ZERO("offload_param.buffer_count")),
    HARMLESS(ZERO("offload_param.buffer_size")),
    HARMLESS(ZERO("offload_param.max_in_cpu")),
    HARMLESS(ZERO("offload_param.pin_memory")),
    READ(ZERO("cpu_offload")),
    READ(ZERO("cpu_offload_param")),
    HARMLESS(ZERO("cpu_offload_use_pin_memory")),
    HARMLESS(ZERO("contiguous_gradients")),
    HARMLESS(ZERO("reduce_scatter")),
    HARMLESS(ZERO("reduce_bucket_size")),
    HARMLESS(ZERO("use_multi_rank_bucket_allreduce")),
    HARMLESS(ZERO("allgather_partitions")),
    HARMLESS(ZERO("allgather_bucket_size")),
    HARMLESS(ZERO("overlap_comm")),
    HARMLESS(ZERO("load_from_fp32_weights")),
    HARMLESS(ZERO("elastic_checkpoint")),
    HARMLESS(ZERO("sub_group_size")),
    HARMLESS(ZERO("prefetch_bucket_size")),
    HARMLESS(ZERO("param_persistence_threshold")),
    HARMLESS(ZERO("model_persistence_threshold")),
    HARMLESS(ZERO("max_live_parameters")),
    HARMLESS(ZERO("max_reuse_distance")),
    HARMLESS(ZERO("gather_16bit_weights_on_model_save")),
    HARMLESS(ZERO("stage3_prefetch_bucket_size")),
    HARMLESS(ZERO("stage3_param_persistence_threshold")),
    HARMLESS(ZERO("stage3_model_persistence_threshold")),
    HARMLESS(ZERO("stage3_max_live_parameters")),
    HARMLESS(ZERO("stage3_max_reuse_distance")),
    HARMLESS(ZERO("stage3_gather_16bit_weights_on_model_save")),
    HARMLESS(ZERO("stage3_gather_fp16_weights_on_model_save")),
    HARMLESS(ZERO("stage3_module_granularity_threshold")),
    HARMLESS(ZERO("stage3_use_all_reduce_for_fetch_params")),
    HARMLESS(ZERO("stage3_allgather_sequential")),
    HARMLESS(ZERO("module_granularity_threshold")),
    HARMLESS(ZERO("use_all_reduce_for_fetch_params")),
    HARMLESS(ZERO("allgather_sequential")),
    HARMLESS(ZERO("ignore_unused_parameters")),
    HARMLESS(ZERO("legacy_stage1")),
    HARMLESS(ZERO("round_robin_gradients")),
    HARMLESS(ZERO("zero_hpz_partition_size")),
    HARMLESS(ZERO("mics_shard_size")),
    HARMLESS(ZERO("mics_hierarchical_params_gather")),
    HARMLESS(ZERO("memory_efficient_linear")),
    HARMLESS(ZERO("pipeline_loading_checkpoint")),
    HARMLESS(ZERO("override_module_apply")),
    HARMLESS(ZERO("log_trace_cache_warnings")),
    HARMLESS(ZERO("enable_sanity_checks")),
    HARMLESS(ZERO("leaf_module")),
    HARMLESS(ZERO("save_muon_momentum_buffer_in_memory")),
    ONLY_FALSE(ZERO("zero_quantized_weights"), "hilbert sends weights as they are"),
    ONLY_FALSE(ZERO("zero_quantized_nontrainable_weights"), "hilbert sends weights as they are"),
    ONLY_FALSE(ZERO("zero_quantized_gradients"), "hilbert sends gradients as they are"),
    NONE(ZERO("zeropp_loco_param"), "hilbert sends gradients as they are"),
    NONE(ZERO("zenflow"), "hilbert updates every parameter in every step"),

    SINGLE("tensor_parallel.autotp_size"),
    SINGLE("tensor_parallel.tp.tp_size"),
    HARMLESS("tensor_parallel.tp_overlap_comm"),
    SINGLE("sequence_parallel_size"),
    ONLY_FALSE("expert_parallel", NULL),
    NONE("pipeline", "hilbert divides the work by data only"),
    ONLY_FALSE("curriculum_learning", NULL),
    ONLY_FALSE("data_efficiency", NULL),
    ONLY_FALSE("progressive_layer_drop", NULL),
    ONLY_FALSE("compression_training", NULL),
    ONLY_FALSE("quantize_training", NULL),
    NONE("weight_quantization", NULL),
    NONE("sparse_attention", NULL),
    ONLY_FALSE("eigenvalue", NULL),
    ONLY_FALSE("elasticity", "write the batch sizes instead"),
    ONLY_FALSE("hybrid_engine", NULL),
    ONLY_TRUE("managed_gradient_accumulation", NULL),
    READ("gradient_allreduce_op"),

    HARMLESS("prescale_gradients"),
    HARMLESS("gradient_predivide_factor"),
    HARMLESS("communication_data_type"),
    HARMLESS("seq_parallel_communication_data_type"),
    HARMLESS("sparse_gradients"),
    HARMLESS("disable_allgather"),
    HARMLESS("graph_harvesting"),
    HARMLESS("activation_checkpointing"),
    HARMLESS("aio"),
    HARMLESS("autotuning"),
    HARMLESS("checkpoint"),
    HARMLESS("comms_config"),
    HARMLESS("comms_logger"),
    HARMLESS("compile"),
    HARMLESS("csv_monitor"),
    HARMLESS("comet"),
    HARMLESS("dataloader_drop_last"),
    HARMLESS("datastates"),
    HARMLESS("dump_state"),
    HARMLESS("flops_profiler"),
    HARMLESS("log_level"),
    HARMLESS("memory_breakdown"),
    HARMLESS("monitor_config"),
    HARMLESS("nebula"),
    HARMLESS("steps_per_print"),
    HARMLESS("tensorboard"),
    HARMLESS("timers"),
    HARMLESS("use_data_before_expert_parallelism"),
    HARMLESS("vocabulary_size"),
    HARMLESS("wall_clock_breakdown"),
    HARMLESS("wandb"),
    HARMLESS("zero_allow_untested_optimizer"),
    HARMLESS("zero_force_ds_cpu_optimizer"),
    HARMLESS("allgather_size"),
};
const size_t hil_deepspeed_key_count = sizeof hil_deepspeed_keys / sizeof *hil_deepspeed_keys;
