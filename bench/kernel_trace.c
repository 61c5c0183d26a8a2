/* kernel_trace.c - every kernel and copy of a CUDA program with its times, through CUPTI.

   A library that the CUDA driver loads into any program that has CUDA_INJECTION64_PATH set to its
   path. Lines of "kind start end stream bytes name", in nanoseconds, go to the file that
   KERNEL_TRACE names. bench/gpu_account.py builds it and reads them. */
#include <cupti.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define BUFFER_BYTES ((size_t)8 << 20)

int InitializeInjection(void);

static FILE *out;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* CUPTI writes records into what it gets here, on a thread of its own. */
static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *records)
{
    *buffer = aligned_alloc(8, BUFFER_BYTES);
    *size = *buffer ? BUFFER_BYTES : 0;
    *records = 0;
}

static void print(const CUpti_Activity *record)
{
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
        const CUpti_ActivityKernel9 *k = (const CUpti_ActivityKernel9 *)record;
        fprintf(out, "kernel %llu %llu %u 0 %s\n", (unsigned long long)k->start,
                (unsigned long long)k->end, k->streamId, k->name);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
        const CUpti_ActivityMemcpy5 *m = (const CUpti_ActivityMemcpy5 *)record;
        fprintf(out, "copy %llu %llu %u %llu %d\n", (unsigned long long)m->start,
                (unsigned long long)m->end, m->streamId, (unsigned long long)m->bytes, m->copyKind);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
        const CUpti_ActivityMemset4 *m = (const CUpti_ActivityMemset4 *)record;
        fprintf(out, "set %llu %llu %u %llu memset\n", (unsigned long long)m->start,
                (unsigned long long)m->end, m->streamId, (unsigned long long)m->bytes);
    }
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
                                 size_t valid)
{
    CUpti_Activity *record = NULL;
    (void)context, (void)stream, (void)size;
    pthread_mutex_lock(&lock);
    while (cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) print(record);
    pthread_mutex_unlock(&lock);
    free(buffer);
}

static void finish(void)
{
    cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
    fclose(out);
}

/* Called once by the driver. */
int InitializeInjection(void)
{
    static const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                               CUPTI_ACTIVITY_KIND_MEMCPY,
                                               CUPTI_ACTIVITY_KIND_MEMSET};
    const char *path = getenv("KERNEL_TRACE");
    out = path ? fopen(path, "w") : NULL;
    if (!out) return 0;
    if (cuptiActivityRegisterCallbacks(give_buffer, take_buffer) != CUPTI_SUCCESS) return 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i)
        if (cuptiActivityEnable(kinds[i]) != CUPTI_SUCCESS) return 0;
    atexit(finish);
    return 1;
}
