/* sotto's C interface: groups of ranks, averaged gradients, gossip, single tensors as bytes.
 *
 * Every function that can fail returns a status, and writes its results only if that is SOTTO_OK. Then
 * sotto_last_error() says what went wrong, where, and what to do. Nothing is thrown. No signal is handled; the first
 * group has SIGPIPE ignored, unless the program handles it. A process that forks may use its handles in the parent
 * alone.
 *
 * Memory belongs to the caller. Handles are opaque; the function that frees one takes NULL, too. A handle serves one
 * thread at a time, unless its functions say otherwise; different handles are independent. Callbacks are never called
 * under a lock of sotto's, and must call no function of the handle that calls them: it would wait for itself.
 *
 * Texts are UTF-8 and end with a zero. Counts and sizes are of elements or bytes, as their names say.
 *
 * "Collective" means that all ranks of the group call the function, in the same order, with the same arguments but for
 * their own data. If one rank fails, the others fail as well, and their errors name it. */
#ifndef SOTTO_H
#define SOTTO_H

#include <stddef.h>
#include <stdint.h>

#if defined(__cplusplus)
extern "C" {
#endif

#define SOTTO_API __attribute__((visibility("default")))

/* The version of this interface. It grows when a function or a member is added, and from the first release on
 * nothing is taken away. A caller that loads the library checks sotto_interface() >= SOTTO_INTERFACE. */
#define SOTTO_INTERFACE 2
SOTTO_API unsigned sotto_interface(void);
SOTTO_API const char* sotto_version(void); /* "0.1.0" */

/* --- errors ------------------------------------------------------ */

typedef enum sotto_status {
  SOTTO_OK = 0,
  SOTTO_CONFIG_ERROR = 1,  /* an argument, codec or option that cannot be used */
  SOTTO_WIRE_ERROR = 2,    /* a message that is damaged, truncated or another one than expected */
  SOTTO_COMM_ERROR = 3,    /* a peer that died, stalled or could not be reached */
  SOTTO_FILE_ERROR = 4,    /* a state that does not fit */
  SOTTO_NUMERIC_ERROR = 5, /* a value that is not finite */
  SOTTO_INTERNAL_ERROR = 6 /* no memory, no thread, or a mistake of sotto's */
} sotto_status;

/* The text of this thread's last error, until its next call of a function that can fail. If `marked` is not 0, options
 * are named in it as \x02NAME\x1fVALUE\x03, VALUE being empty where it is not said: a caller can spell them as its
 * users write them. Otherwise they are named plainly. */
SOTTO_API const char* sotto_last_error(int marked);

/* --- memory ------------------------------------------------------ */

enum { SOTTO_F32 = 0, SOTTO_F16 = 1, SOTTO_BF16 = 2, SOTTO_F64 = 3, SOTTO_I32 = 4, SOTTO_I64 = 5, SOTTO_U8 = 6 };
typedef int sotto_type;

#define SOTTO_MOST_DIMENSIONS 64

/* A tensor in the memory of the host. Strides are of elements and not below 0; NULL: the last dimension is the
 * innermost, without gaps. */
typedef struct sotto_tensor {
  void* data;
  sotto_type type;
  size_t dimensions;
  const int64_t* shape;
  const int64_t* strides;
} sotto_tensor;

/* Takes bytes whose number the caller cannot know. It is called once, on the calling thread; `data` is valid meanwhile.
 */
typedef struct sotto_sink {
  void (*take)(void* context, const void* data, size_t bytes);
  void* context;
} sotto_sink;

/* --- parameters and values --------------------------------------- */

typedef struct sotto_parameter {
  const char* name;
  sotto_type type; /* of its gradient: SOTTO_F32, SOTTO_F16 or SOTTO_BF16 */
  size_t dimensions;
  const int64_t* shape; /* in the order of its memory: the last dimension is the innermost */
} sotto_parameter;

/* A named value. What a rank holds back from step to step, such as the memory of `ef`, is a set of them. */
enum { SOTTO_FLOATS = 0, SOTTO_BYTES = 1, SOTTO_NUMBER = 2 };
typedef int sotto_value_kind;

typedef struct sotto_value {
  const char* name;
  sotto_value_kind kind;
  const void* data; /* floats, bytes, or one uint64_t */
  size_t count;     /* of floats or bytes; 1 */
} sotto_value;

/* Is called once for each value, on the calling thread; the value is valid meanwhile. */
typedef struct sotto_visitor {
  void (*visit)(void* context, const sotto_value* value);
  void* context;
} sotto_visitor;

/* --- codecs ------------------------------------------------------ */

/* Turns whole tensors into bytes that can be decoded without anything else, and back. Any thread may call these; calls
 * wait for each other. */
typedef struct sotto_codec sotto_codec;

/* `codec` is such as "topk(0.01) | qsgd(4) | rans", or a preset, without a memory. `threads` encode and decode; the
 * bytes are the same with any number. SOTTO_CONFIG_ERROR. */
SOTTO_API sotto_status sotto_codec_create(const char* codec, int threads, sotto_codec** made);
SOTTO_API void sotto_codec_free(sotto_codec* codec);

/* The codec with every option named, as long as the handle lives. */
SOTTO_API const char* sotto_codec_text(const sotto_codec* codec);

typedef enum sotto_contract_kind {
  SOTTO_EXACT = 0,       /* C(x) = x, bit for bit */
  SOTTO_ROUNDING = 1,    /* |C(x) - x| <= 1e-5 |x| */
  SOTTO_UNBIASED = 2,    /* E C(x) = x and E |C(x) - x|^2 <= omega |x|^2 */
  SOTTO_CONTRACTION = 3, /* E |C(x) - x|^2 <= (1 - delta) |x|^2 */
  SOTTO_NO_CONTRACT = 4
} sotto_contract_kind;

typedef struct sotto_contract {
  sotto_contract_kind kind;
  double omega;
  double delta;
  int linear; /* not 0: messages can be added before they are decoded */
} sotto_contract;

/* What users should know of a codec that averages their gradients. `name` is the argument that gave it, for errors;
 * NULL: "codec". The parameters are those that have it, or none. `visitor` gets texts (SOTTO_BYTES), empty where there
 * is nothing to say: "dense codec", "dense aggregator": the same without compression; "momentum": the stage that makes
 * the momentum, so that the optimiser must make none; "memory": the memory that makes it, as written; "without memory":
 * the codec without it; "optimiser": that of `sotto train` to which it is tied; "warning": what is probably a mistake,
 * with marks as in sotto_last_error(1). */
SOTTO_API sotto_status sotto_codec_facts(const char* name, const char* codec, const char* aggregator,
                                         const sotto_parameter* parameters, size_t count, sotto_visitor visitor);

/* What the codec promises about a tensor of this shape; as text, too, unless `text` is NULL. */
SOTTO_API sotto_status sotto_codec_contract(sotto_codec* codec, const int64_t* shape, size_t dimensions,
                                            sotto_contract* contract, const sotto_sink* text);

/* The tensor is of SOTTO_F32, SOTTO_F16 or SOTTO_BF16. Random numbers depend on `seed` and `step` alone.
 * SOTTO_CONFIG_ERROR, SOTTO_NUMERIC_ERROR for a value that is not finite. */
SOTTO_API sotto_status sotto_codec_encode(sotto_codec* codec, const sotto_tensor* tensor, uint64_t seed, uint32_t step,
                                          sotto_sink sink);

/* Reads what tensor these bytes hold: `shape` has room for SOTTO_MOST_DIMENSIONS. SOTTO_WIRE_ERROR if they were not
 * made by sotto_codec_encode(), or the tensor has more than `most_elements`. */
SOTTO_API sotto_status sotto_codec_head(const void* data, size_t bytes, uint64_t most_elements, sotto_type* type,
                                        int64_t* shape, size_t* dimensions);

/* Decodes into a tensor of the type and shape of the head, with any strides. SOTTO_WIRE_ERROR for bytes that are
 * damaged or of another codec; SOTTO_NUMERIC_ERROR if the type cannot hold a decoded value. After an error the tensor
 * may be half written. */
SOTTO_API sotto_status sotto_codec_decode(sotto_codec* codec, const void* data, size_t bytes, const sotto_tensor* into);

/* --- groups ------------------------------------------------------ */

/* Where ranks leave words for each other: a store that they share, such as torch's. The functions are called on several
 * threads, at any time until release(). They return 0, or another number if the store is gone. */
typedef struct sotto_store {
  int (*set)(void* context, const char* key, const void* value, size_t bytes);
  /* Calls sink->take() with the value, or not at all if nobody has written the key. Does not wait. */
  int (*find)(void* context, const char* key, const sotto_sink* sink);
  /* Adds to a number in decimal digits, which is 0 at first. */
  int (*add)(void* context, const char* key, int64_t number, int64_t* sum);
  /* Writes `desired` if nobody has written the key. Calls sink->take() with the value that the key then has. */
  int (*set_first)(void* context, const char* key, const void* desired, size_t bytes, const sotto_sink* sink);
  /* Called once, when nothing above will be called any more, which may be after sotto_group_free(); NULL: nothing. */
  void (*release)(void* context);
  void* context;
} sotto_store;

/* A store where there is none: rank 0 runs on the machine `host`, and serves one at that port until release(); the
 * others find it there. Rank 0's release() waits up to two seconds for theirs. `timeout` is in seconds, to find rank 0
 * and for each request; 0: 60. `secret` is a file that all ranks have (64 hexadecimal digits; nobody but its owner may
 * read it), or NULL. With it the store is encrypted, and keeps strangers out. Without it whoever reaches the port can
 * read there, and disturb the ranks. If ranks run on several machines, options of groups need `host` as `near_host`.
 * SOTTO_COMM_ERROR if rank 0 is not found. */
SOTTO_API sotto_status sotto_store_open(const char* host, uint16_t port, int rank, int ranks, const char* secret,
                                        double timeout, sotto_store* opened);

typedef struct sotto_group_options {
  size_t bytes;          /* sizeof(sotto_group_options) */
  double timeout;        /* seconds for each operation, and to meet; 0: 60 */
  int plain;             /* not 0: do not encrypt between hosts, since nobody else can reach the network */
  const char* interface; /* the network interface to use, such as "eth0"; NULL: the one that leads to `near_host` */
  const char* near_host; /* a host that all ranks can reach, such as that of the store; NULL: there is none */
  int streams;           /* connections to each peer, over which long messages are spread; 0: 1 */
} sotto_group_options;

/* A place in the store where ranks meet before they are connected. Each rank has its own number below `ranks`; all make
 * the meetings of one store in the same order. It does not wait. `timeout` is of each request, in seconds; 0: 60. The
 * store stays until the group that is made here is freed. */
typedef struct sotto_meeting sotto_meeting;
SOTTO_API sotto_status sotto_meeting_create(const sotto_store* store, int rank, int ranks, double timeout,
                                            sotto_meeting** made);
SOTTO_API void sotto_meeting_free(sotto_meeting* meeting);
/* Tells the others, who wait in sotto_meeting_connect(), that this rank will not come. */
SOTTO_API void sotto_meeting_give_up(sotto_meeting* meeting, const char* reason);

/* A fixed group of ranks, on TCP connections of their own. */
typedef struct sotto_group sotto_group;

/* Collective, once for a meeting. Ranks of one host connect over the loopback. Otherwise connections are encrypted (TLS
 * 1.3) with a fresh secret, which travels through the store and is as safe as that. `options` may be NULL.
 * SOTTO_COMM_ERROR names ranks that did not come. */
SOTTO_API sotto_status sotto_meeting_connect(sotto_meeting* meeting, const sotto_group_options* options,
                                             sotto_group** made);
/* Collective: makes a meeting, and connects there. */
SOTTO_API sotto_status sotto_group_create(const sotto_store* store, int rank, int ranks,
                                          const sotto_group_options* options, sotto_group** made);
/* What was made of the group must be freed before. */
SOTTO_API void sotto_group_free(sotto_group* group);

SOTTO_API int sotto_group_rank(const sotto_group* group);
SOTTO_API int sotto_group_ranks(const sotto_group* group);
SOTTO_API int sotto_group_encrypts(const sotto_group* group);

/* Tells the others that this rank fails because of `reason`: what they wait for fails with it. */
SOTTO_API void sotto_group_give_up(sotto_group* group, const char* reason);

/* Collective: `sink` takes the bytes of every rank on rank 0, in the order of ranks, and nothing elsewhere. While
 * something else was made of the group, this is called between its steps. */
SOTTO_API sotto_status sotto_group_gather(sotto_group* group, const void* data, size_t bytes, sotto_sink sink);

/* A value that must be the same on all ranks, such as an argument of the caller's. */
typedef struct sotto_term {
  const char* name;
  const char* value;
} sotto_term;

/* --- averaged gradients ------------------------------------------ */

typedef struct sotto_phase {
  uint64_t first_step;
  const char* codec;
  const char* aggregator; /* NULL: one that fits */
} sotto_phase;

/* Parameters that have one codec, or several, one after the other. */
typedef struct sotto_rule {
  const char* name;         /* of the argument that gave the codec, for errors; NULL: "codec" */
  const size_t* parameters; /* indices, ascending */
  size_t parameter_count;
  const sotto_phase* phases; /* in the order of their first steps, the first of which is 0 */
  size_t phase_count;
} sotto_rule;

typedef struct sotto_averager_options {
  size_t bytes;        /* sizeof(sotto_averager_options) */
  uint64_t seed;       /* of all random numbers; the same on all ranks */
  size_t bucket_bytes; /* of float32 that are exchanged at a time; 0: 4 MiB */
  /* Not 0: if a value is not finite on any rank, all means of the step are NaN on every rank, and no memory changes.
   * Means are then available only at the end of the step. 0: that is SOTTO_NUMERIC_ERROR. */
  int propagate;
  int threads; /* that encode and decode; 0: 1 */
  const sotto_term* required_same;
  size_t required_same_count;
} sotto_averager_options;

/* Averages the gradients of a model over the ranks, on a thread of its own, while backward computes others. */
typedef struct sotto_averager sotto_averager;

/* Collective. Each parameter is in exactly one rule. `options` may be NULL. The group must not be used for anything
 * else while the averager lives. SOTTO_CONFIG_ERROR if ranks differ in anything. */
SOTTO_API sotto_status sotto_averager_create(sotto_group* group, const sotto_parameter* parameters,
                                             size_t parameter_count, const sotto_rule* rules, size_t rule_count,
                                             const sotto_averager_options* options, sotto_averager** made);
SOTTO_API void sotto_averager_free(sotto_averager* averager);

/* A gradient. Its mean is written to the same place. */
typedef struct sotto_gradient {
  size_t parameter; /* index */
  void* data;       /* in the type and order of the parameter, without gaps */
} sotto_gradient;

/* A bucket of gradients that are posted together. Both functions are called on the averager's thread. */
typedef struct sotto_bucket {
  const sotto_gradient* gradients; /* copied */
  size_t count;
  void (*await)(
      void* context); /* returns when the gradients can be read, as after an event of a device; NULL: at once */
  /* The means are in place; or there was an error, `error` is its marked text, and sotto_averager_wait() returns it,
   * too. The memory of the gradients is the caller's again. NULL: sotto_averager_wait() is enough. */
  void (*done)(void* context, sotto_status status, const char* error);
  void* context;
} sotto_bucket;

/* A step: begin, post every gradient once in any order, end, wait. Only wait() waits. Buckets of parameters are
 * exchanged in descending order of their indices, as backward should complete them. Gradients are divided by
 * `loss_scale` before anything else, and means are multiplied by it. `replica` may be NULL; all ranks pass one in the
 * same steps. It is a hash of the parameters, and SOTTO_NUMERIC_ERROR of the step says that a rank has another one.
 * After an error every later step fails with it at once. SOTTO_CONFIG_ERROR from post() for a gradient that does not
 * exist, and from wait() for one that was not posted. */
SOTTO_API sotto_status sotto_averager_begin(sotto_averager* averager, double loss_scale, const uint64_t* replica);
SOTTO_API sotto_status sotto_averager_post(sotto_averager* averager, const sotto_bucket* bucket);
SOTTO_API sotto_status sotto_averager_end(sotto_averager* averager);
SOTTO_API sotto_status sotto_averager_wait(sotto_averager* averager);
/* Ends the step on all ranks, for a reason of the caller's. */
SOTTO_API sotto_status sotto_averager_fail(sotto_averager* averager, const char* reason);

typedef struct sotto_stats {
  size_t bytes; /* sizeof(sotto_stats) */
  uint64_t steps;
  uint64_t bytes_sent;
  uint64_t bytes_received;
  uint64_t dense_bytes; /* what a ring all-reduce of the same gradients would have sent */
  double encode_seconds, network_seconds, decode_seconds;
} sotto_stats;

/* The functions below are called between steps. */
SOTTO_API sotto_status sotto_averager_stats(sotto_averager* averager, sotto_stats* stats);
/* The codec and the aggregator in use, one line a rule. */
SOTTO_API sotto_status sotto_averager_methods(sotto_averager* averager, sotto_sink sink);

/* --- state for checkpoints --------------------------------------- */

/* What a rank held back in its former group. */
typedef struct sotto_former {
  int rank, ranks; /* its number then, and how many ranks there were; rank below 0: it has only shared values */
  const sotto_value* values;
  size_t count;
} sotto_former;

/* The state before the next step, and the number of that step. */
SOTTO_API sotto_status sotto_averager_state(sotto_averager* averager, uint64_t* step, sotto_visitor visitor);
/* The names of those values that are the same on all ranks; `data` is NULL. */
SOTTO_API sotto_status sotto_averager_shared(sotto_averager* averager, sotto_visitor visitor);
/* All that a state must match to be loaded, as a text. */
SOTTO_API sotto_status sotto_averager_identity(sotto_averager* averager, sotto_sink sink);
/* Continues before this step from a state that was taken there. All ranks load states of one step, which is not
 * checked. SOTTO_FILE_ERROR for a state of something else: nothing changes. */
SOTTO_API sotto_status sotto_averager_load(sotto_averager* averager, uint64_t step, const sotto_value* values,
                                           size_t count);
/* Continues before this step in a group of other ranks: memories become the mean of those in `formers`. A rank whose
 * group changed passes its own state alone, and a new rank the shared values of another rank. */
SOTTO_API sotto_status sotto_averager_spread(sotto_averager* averager, uint64_t step, const sotto_former* formers,
                                             size_t count);

/* --- models that ranks train by themselves ----------------------- */

/* The parameters of a model. The functions are called within those of the handle, on their thread, with a place for
 * each parameter. They return 0, or another number if the model cannot be read or written. */
typedef struct sotto_model {
  int (*read)(void* context, float* const* into);
  int (*write)(void* context, const float* const* from);
  void* context;
} sotto_model;

typedef struct sotto_steps_options {
  size_t bytes;               /* sizeof(sotto_steps_options) */
  const char* codec;          /* NULL: "none" */
  const char* aggregator;     /* NULL: one that fits */
  const char* topology;       /* of gossip; NULL: the algorithm's own */
  const char* mixing;         /* of gossip; NULL: the topology's own */
  const char* peers_per_step; /* such as "0:1,1000:2"; NULL: as the topology says */
  int node_size;              /* ranks that share a model; 0: 1 */
  uint64_t seed;
  size_t bucket_bytes; /* 0: 4 MiB */
  int threads;         /* 0: 1 */
  const sotto_term* required_same;
  size_t required_same_count;
} sotto_steps_options;

/* Drives an algorithm from somebody's training loop: gossip ("push_sum"), local steps ("local(h=8)", "diloco"), and
 * others that mix models rather than gradients. */
typedef struct sotto_steps sotto_steps;

/* Collective. Parameters must be the same on all ranks when the first step begins. `shape`s are in the order of memory;
 * types are SOTTO_F32. `options` may be NULL. The group must not be used for anything else meanwhile. */
SOTTO_API sotto_status sotto_steps_create(sotto_group* group, const char* algorithm, const sotto_parameter* parameters,
                                          size_t parameter_count, sotto_model model, const sotto_steps_options* options,
                                          sotto_steps** made);
SOTTO_API void sotto_steps_free(sotto_steps* steps);

/* Before the optimiser takes its step, at this learning rate; if sotto_steps_start_early() says so, also before the
 * gradient is computed, so that messages travel meanwhile. Only the first of several calls counts. */
SOTTO_API sotto_status sotto_steps_begin(sotto_steps* steps, double learning_rate);
/* After it: the model becomes the algorithm's result. */
SOTTO_API sotto_status sotto_steps_end(sotto_steps* steps);
SOTTO_API int sotto_steps_start_early(const sotto_steps* steps);
/* Whether an error ended it for good. */
SOTTO_API int sotto_steps_failed(const sotto_steps* steps);
/* This rank fails for good, with SOTTO_CONFIG_ERROR, and the others are told why. */
SOTTO_API sotto_status sotto_steps_fail(sotto_steps* steps, const char* reason);

/* The functions below are called between steps. Those of means, load(), refuse_load(), rejoin() and gather() are
 * collective. If ranks go at their own speed ("ad_psgd"), so is state().
 * The model becomes the mean over all ranks, and all continue from there. SOTTO_NUMERIC_ERROR on all ranks, which
 * changes nothing, if one is not finite. */
SOTTO_API sotto_status sotto_steps_take_average(sotto_steps* steps);
/* The model becomes the mean until sotto_steps_show_own(), which restores this rank's. */
SOTTO_API sotto_status sotto_steps_show_mean(sotto_steps* steps);
SOTTO_API sotto_status sotto_steps_show_own(sotto_steps* steps);

/* A vector that is no parameter, such as a running mean. `shape` and `type` are texts that tell ranks apart. */
typedef struct sotto_statistic {
  const char* name;
  const char* shape;
  const char* type;
  double* values;
  size_t count;
} sotto_statistic;
/* They become their means over all ranks; what all ranks have alike stays as it is, infinities too.
 * SOTTO_CONFIG_ERROR on all ranks if one has other names, shapes or types. */
SOTTO_API sotto_status sotto_steps_average(sotto_steps* steps, const sotto_statistic* statistics, size_t count);

SOTTO_API sotto_status sotto_steps_state(sotto_steps* steps, uint64_t* step, sotto_visitor visitor);
/* The names of those values of the last state that are the same on all ranks; `data` is NULL. */
SOTTO_API sotto_status sotto_steps_shared(sotto_steps* steps, sotto_visitor visitor);
/* All that a state must match to be loaded or, without the `graph`, for rejoin(). */
SOTTO_API sotto_status sotto_steps_identity(sotto_steps* steps, int graph, sotto_sink sink);
/* The steps that this rank has heard of from each rank: `of_ranks` has room for all. They are exact unless ranks go at
 * their own speed; then after take_average(), average() and state(). */
SOTTO_API sotto_status sotto_steps_progress(sotto_steps* steps, uint64_t* of_ranks);
SOTTO_API sotto_status sotto_steps_load(sotto_steps* steps, uint64_t step, const sotto_value* values, size_t count);
/* Instead of load() on a rank that has nothing to load: all fail to. */
SOTTO_API sotto_status sotto_steps_refuse_load(sotto_steps* steps);
/* Before the first step: continues before this step in place of steps of another group. `former` is what this rank had
 * there; for a new rank, the shared values of another one. The model becomes the exact mean of those of ranks that are
 * not new. */
SOTTO_API sotto_status sotto_steps_rejoin(sotto_steps* steps, uint64_t step, const sotto_former* former);
SOTTO_API sotto_status sotto_steps_gather(sotto_steps* steps, const void* data, size_t bytes, sotto_sink sink);
SOTTO_API sotto_status sotto_steps_stats(sotto_steps* steps, sotto_stats* stats);
SOTTO_API sotto_status sotto_steps_methods(sotto_steps* steps, sotto_sink sink);

/* Whether an algorithm mixes models along a graph. SOTTO_CONFIG_ERROR if it is none. */
SOTTO_API sotto_status sotto_algorithm_gossips(const char* algorithm, int* gossips);

/* --- gossip ------------------------------------------------------ */

/* Averages vectors with those of neighbours, round by round. */
typedef struct sotto_gossiper sotto_gossiper;

/* Collective. `topology` is such as "ring" or "exponential"; `mixing` names weights, and NULL stands for those of the
 * topology; `codec` is "none", "f16" or "bf16". The group must not be used for anything else while the gossiper lives.
 */
SOTTO_API sotto_status sotto_gossiper_create(sotto_group* group, const char* topology, const char* mixing,
                                             const char* codec, uint64_t seed, int threads, sotto_gossiper** made);
SOTTO_API void sotto_gossiper_free(sotto_gossiper* gossiper);

/* One round on floats of this rank, in place: a vector of weight `*weight`, whose new weight is written there. Vector
 * over weight approaches the mean of all ranks. Collective among neighbours, whose vectors have the same size and
 * `form`: a text that says which element is where; NULL: "". SOTTO_CONFIG_ERROR: nothing was sent, and neighbours wait
 * for the next call. After any other error the gossiper cannot be used. */
SOTTO_API sotto_status sotto_gossiper_mix(sotto_gossiper* gossiper, float* values, size_t count, const char* form,
                                          double* weight);
SOTTO_API uint64_t sotto_gossiper_round(const sotto_gossiper* gossiper);
SOTTO_API sotto_status sotto_gossiper_topology(const sotto_gossiper* gossiper, sotto_sink sink);
/* After so many rounds every rank has the exact mean; -1: never, or not soon. Takes O(ranks^3). */
SOTTO_API sotto_status sotto_gossiper_exact_after(const sotto_gossiper* gossiper, int64_t* rounds);

/* --- sums of single tensors -------------------------------------- */

enum { SOTTO_AVG = 0, SOTTO_SUM = 1, SOTTO_MIN = 2, SOTTO_MAX = 3 };
typedef int sotto_op;

typedef struct sotto_aggregate_options {
  size_t bytes; /* sizeof(sotto_aggregate_options) */
  sotto_op op;
  double denominator;     /* of SOTTO_AVG; 0: the number of ranks */
  const char* codec;      /* without a memory; NULL: "none" */
  const char* aggregator; /* NULL: one that fits */
  uint64_t seed;
  size_t most;    /* elements of a message; 0: as many as it can have */
  double timeout; /* seconds for each operation, from this call on; 0: as before */
} sotto_aggregate_options;

/* Combines the tensors of all ranks in place, with the same bits on every rank. Collective. A codec or an aggregator
 * takes SOTTO_F32, SOTTO_F16 or SOTTO_BF16; without, any type is combined exactly, and SOTTO_AVG takes floats.
 * `options` may be NULL. If one rank refuses, so do the others: one that has no tensor passes NULL. SOTTO_NUMERIC_ERROR
 * for values that are not finite, or whose result does not fit the type. */
SOTTO_API sotto_status sotto_aggregate(sotto_group* group, const sotto_tensor* tensor,
                                       const sotto_aggregate_options* options);

/* --- ranks that come and go -------------------------------------- */

/* This process as a rank of a job whose coordinator (`sotto coordinator`) lets ranks come and go. The group of ranks
 * changes from generation to generation. `stop` may be NULL; as soon as another thread writes a number other than 0
 * there, a function that waits returns SOTTO_COMM_ERROR. */
typedef struct sotto_member sotto_member;

/* Joins the job whose coordinator is at "HOST:PORT", and says from now on that this rank lives. `secret` is the file
 * with the job's secret, which the coordinator has, too; NULL: there is none. A coordinator that is gone is waited for,
 * throughout the job, for `wait` seconds. */
SOTTO_API sotto_status sotto_member_create(const char* coordinator, const char* secret, double wait, const int* stop,
                                           sotto_member** made);
/* Without sotto_member_leave() before, the coordinator hears of an error. */
SOTTO_API void sotto_member_free(sotto_member* member);

/* Waits for the first group that has this rank as a member. `*joined` is 0 if the run came to its end without it. */
SOTTO_API sotto_status sotto_member_join(sotto_member* member, const int* stop, int* joined);
/* Waits until all ranks of the group are here. `*store` is a store for this group alone: its functions may be called,
 * on any thread, until release(). find() fails if a rank of the group is lost, and sotto_last_error() says which. */
SOTTO_API sotto_status sotto_member_meet(sotto_member* member, double timeout, const int* stop, sotto_store* store);
/* Leaves the group because of `reason`, and waits for the next one. `moved` is not 0 if the group made a step that the
 * next one continues from: a job whose groups do not move ends. */
SOTTO_API sotto_status sotto_member_next(sotto_member* member, const char* reason, int moved, const int* stop);
/* Tells the coordinator that this rank has ended, and why; NULL: it has come to the end of the run. */
SOTTO_API sotto_status sotto_member_leave(sotto_member* member, const char* words, int failed);

typedef struct sotto_membership {
  size_t bytes; /* sizeof(sotto_membership) */
  int id;       /* that the rank keeps */
  int rank, ranks;
  int wants_change; /* not 0: others want to join, so the members should leave this group together */
  uint64_t generation;
  const char* failure; /* after which no group trains; valid until the next call; "": this group trains */
} sotto_membership;
SOTTO_API sotto_status sotto_member_info(sotto_member* member, sotto_membership* into);

#if defined(__cplusplus)
}
#endif

#endif
