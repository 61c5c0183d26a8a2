/* status.h - how every hilbert function that can fail says so. */
#ifndef HILBERT_STATUS_H
#define HILBERT_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

/* On a type: ignoring a value of it that a function returns is warned about. Clang's attribute does
   that in any version; gcc takes the standard's, in C11 as well. */
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
    HIL_ERR_USAGE,       /* the caller asked for something that cannot be meant */
    HIL_ERR_INPUT,       /* a file or a value from outside is wrong */
    HIL_ERR_IO,          /* the system refused to read or write */
    HIL_ERR_MEMORY,      /* the system has no memory left */
    HIL_ERR_BUDGET,      /* it does not fit into what may be used */
    HIL_ERR_NUMERIC,     /* NaN or infinity where a number is needed */
    HIL_ERR_INTERRUPTED, /* the user asked to stop; everything is saved */
} hil_status;

/* The one line that describes the last failure on this thread. Valid until the next failure. */
HIL_API const char *hil_status_message(void);

#ifdef __cplusplus
}
#endif
#endif
