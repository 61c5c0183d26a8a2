/* Every function of the API refuses options whose size was not set, with a message that names the
   function to call, and accepts the structure of a program built with older headers. */
#include "hilbert/checkpoint.h"
#include "hilbert/nn.h"
#include "hilbert/plan.h"
#include "hilbert/probe.h"
#include "hilbert/store.h"
#include "hilbert/trainer.h"

#include "check.h"

#define REFUSED(expr, stem)                                                                        \
    CHECK_FAILS(expr, HIL_ERR_USAGE, stem "_options has no size: call " stem "_defaults")

static void check_jobs(void)
{
    hil_train_result trained;
    hil_eval_result evaluated;
    hil_generate_result generated;
    hil_export_result exported;
    hil_quantize_result quantized;
    hil_bench_io_result measured;
    const hil_train_options none = {.model = "x"};
    hil_train_options train;
    hil_train_defaults(&train);
    REFUSED(hil_train(&none, NULL, &trained), "hil_train");
    REFUSED(hil_eval(&(hil_eval_options){.model = "x"}, NULL, &evaluated), "hil_eval");
    REFUSED(hil_generate(&(hil_generate_options){.model = "x"}, &generated), "hil_generate");
    REFUSED(hil_tokenize(&(hil_tokenize_options){.model = "x"}, stdin, stdout), "hil_tokenize");
    REFUSED(hil_checkpoint_export(&(hil_export_options){.out = "x"}, NULL, &exported),
            "hil_export");
    REFUSED(hil_quantize(&(hil_quantize_options){.model = "x"}, NULL, &quantized), "hil_quantize");
    REFUSED(hil_bench_io(&(hil_bench_io_options){.path = "x"}, NULL, &measured), "hil_bench_io");
    REFUSED(hil_probe(&(hil_probe_options){.threads = 1}, NULL, stdout), "hil_probe");
    REFUSED(hil_plan_show(&none, &(hil_plan_options){.ranks = 1}, NULL, stdout), "hil_train");
    REFUSED(hil_plan_show(&train, &(hil_plan_options){.ranks = 1}, NULL, stdout), "hil_plan");
}

static void check_objects(void)
{
    hil_io *io;
    hil_comm *comm;
    hil_param_store *store;
    hil_trainer *trainer;
    hil_model *model;
    REFUSED(hil_io_create(&io, &(hil_io_options){.depth = 1}), "hil_io");
    REFUSED(hil_comm_open(&comm, &(hil_comm_options){.expected = 1}), "hil_comm");
    REFUSED(hil_param_store_create(&store, &(hil_param_store_options){.dtype = "fp32"}),
            "hil_param_store");
    CHECK_OK(hil_model_create(&model));
    REFUSED(hil_trainer_create(&trainer, model, &(hil_trainer_options){.threads = 1}),
            "hil_trainer");
    CHECK(io == NULL && comm == NULL && store == NULL && trainer == NULL);
    hil_model_destroy(model);
}

/* A program whose hil_io_options ended after `split`: the number of requests is the library's. */
static void check_older(void)
{
    struct {
        size_t size;
        hil_io_kind engine;
        int depth;
        size_t split;
    } old;
    hil_io *io;
    hil_io_defaults_sized((hil_io_options *)&old, sizeof old);
    CHECK_INT(old.size, sizeof old);
    old.engine = HIL_IO_THREADS;
    old.depth = 2;
    CHECK_OK(hil_io_create(&io, (const hil_io_options *)&old));
    CHECK_TEXT(hil_io_engine(io), "threads");
    hil_io_destroy(io);
}

int main(void)
{
    check_jobs();
    check_objects();
    check_older();
    return 0;
}
