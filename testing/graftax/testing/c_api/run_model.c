// Calls a signature of a SavedModel with changing batch sizes over TensorFlow's C API, and prints what was measured as JSON.
//
//   run_model MODEL INPUT OUTPUT WIDTH CALLS SIZES
//
// INPUT and OUTPUT are names of nodes with one float32 tensor [batch, ...], WIDTH is the length of a row of the input. Batches
// have 1 to SIZES rows, in turn. Each row of a result must sum to 1.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tensorflow/c/c_api.h"

enum { kSamples = 5 };

static TF_Status* status;

static void check(const char* what) {
  if (TF_GetCode(status) != TF_OK) {
    fprintf(stderr, "%s: %s\n", what, TF_Message(status));
    exit(1);
  }
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

// Returns the resident memory of this process.
static double resident_mib(void) {
  long total = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%ld %ld", &total, &resident) != 2) exit(1);
  fclose(file);
  return resident * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

static TF_Output output_of(TF_Graph* graph, const char* name) {
  TF_Output output = {TF_GraphOperationByName(graph, name), 0};
  if (output.oper == NULL) {
    fprintf(stderr, "the graph has no node %s\n", name);
    exit(1);
  }
  return output;
}

// Calls the signature with a batch of `rows` and checks its result.
static void call(TF_Session* session, TF_Output input, TF_Output output, long rows, long width) {
  const int64_t shape[] = {rows, width};
  TF_Tensor* given = TF_AllocateTensor(TF_FLOAT, shape, 2, rows * width * sizeof(float));
  float* values = TF_TensorData(given);
  for (long i = 0; i < rows * width; ++i) values[i] = (i % 17) / 17.0f - 0.5f;
  TF_Tensor* found = NULL;
  TF_SessionRun(session, NULL, &input, &given, 1, &output, &found, 1, NULL, 0, NULL, status);
  check("TF_SessionRun");
  if (TF_NumDims(found) != 2 || TF_Dim(found, 0) != rows) {
    fprintf(stderr, "a batch of %ld rows has a result of another shape\n", rows);
    exit(1);
  }
  const long columns = TF_Dim(found, 1);
  const float* scores = TF_TensorData(found);
  for (long row = 0; row < rows; ++row) {
    double sum = 0;
    for (long column = 0; column < columns; ++column) sum += scores[row * columns + column];
    if (!(fabs(sum - 1) < 1e-5)) {
      fprintf(stderr, "a row of a batch of %ld rows sums to %g\n", rows, sum);
      exit(1);
    }
  }
  TF_DeleteTensor(given);
  TF_DeleteTensor(found);
}

static int by_size(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  if (argc != 7) {
    fprintf(stderr, "usage: run_model MODEL INPUT OUTPUT WIDTH CALLS SIZES\n");
    return 2;
  }
  const long width = atol(argv[4]), calls = atol(argv[5]), sizes = atol(argv[6]);
  status = TF_NewStatus();
  TF_Graph* graph = TF_NewGraph();
  TF_SessionOptions* options = TF_NewSessionOptions();
  const char* tags[] = {"serve"};
  TF_Session* session = TF_LoadSessionFromSavedModel(options, NULL, argv[1], tags, 1, graph, NULL, status);
  check("TF_LoadSessionFromSavedModel");
  const TF_Output input = output_of(graph, argv[2]), output = output_of(graph, argv[3]);

  double* first = calloc(sizes, sizeof(double));
  for (long size = 1; size <= sizes; ++size) {
    const double start = seconds();
    call(session, input, output, size, width);
    first[size - 1] = seconds() - start;
  }
  const double at_all = first[0];
  qsort(first, sizes, sizeof(double), by_size);

  double resident[kSamples];
  const long part = calls / kSamples;
  const double start = seconds();
  for (long number = 0; number < part * kSamples; ++number) {
    call(session, input, output, 1 + number % sizes, width);
    if ((number + 1) % part == 0) resident[number / part] = resident_mib();
  }
  const double each = (seconds() - start) / (part * kSamples);
  printf("{\"tensorflow\": \"%s\", \"calls\": %ld, \"sizes\": %ld, \"first_call_ms\": %.1f, \"new_size_ms\": [%.1f, %.1f], ",
         TF_Version(), part * kSamples, sizes, at_all * 1e3, first[sizes / 2] * 1e3, first[sizes - 2] * 1e3);
  printf("\"call_us\": %.1f, \"resident_mib\": [", each * 1e6);
  for (int i = 0; i < kSamples; ++i) printf("%s%.1f", i ? ", " : "", resident[i]);
  printf("]}\n");

  TF_CloseSession(session, status);
  TF_DeleteSession(session, status);
  TF_DeleteSessionOptions(options);
  TF_DeleteGraph(graph);
  TF_DeleteStatus(status);
  free(first);
  return 0;
}
