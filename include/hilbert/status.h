/* status.h - what every hilbert function that can fail returns. */
#ifndef HILBERT_STATUS_H
#define HILBERT_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* On a type: compilers warn when a returned value of it is ignored. Clang's attribute works in any
   version; gcc accepts the standard's, also in C11. */
#define HIL_NODISCARD_TYPE
#if defined(__clang__) && !defined(__CUDACC__)
#undef HIL_NODISCARD_TYPE
#define HIL_NODISCARD_TYPE __attribute__((warn_unused_result))
#elif defined(__has_c_attribute) && !defined(__CUDACC__)
#if __has_c_attribute(nodiscard)
#undef HIL_NODISCARD_TYPE
#define HIL_NODISCARD_TYPE [[nodiscard]]
#endif
#endif

#define HIL_API __attribute__((visibility("default")))

__extension__ typedef enum HIL_NODISCARD_TYPE hil_status {
    HIL_OK = 0,
    HIL_ERR_USAGE,       /* the caller's arguments are invalid */
    HIL_ERR_INPUT,       /* a file or a value from outside is invalid */
    HIL_ERR_IO,          /* a system call for I/O failed */
    HIL_ERR_MEMORY,      /* the system is out of memory */
    HIL_ERR_BUDGET,      /* it does not fit into the budgets */
    HIL_ERR_NUMERIC,     /* NaN or infinity where a number is needed */
    HIL_ERR_INTERRUPTED, /* the user asked to stop; everything is saved */
} hil_status;

/* One line that describes the last failure on this thread. Valid until the next failure. */
HIL_API const char *hil_status_message(void);

#ifdef __cplusplus
}
#endif
#endif
