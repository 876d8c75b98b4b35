#!/bin/sh
# A peer for load tests, in the place of an OpenTelemetry Collector: it is started and stopped as one, listens where the
# configuration says, and passes spans and points on to the backend that stands there. It reads no files, and what a
# configuration asks for beside that is not done. It is the program in $WEIR.
set -eu

if [ "$1" = --version ]; then
    echo "stand-in 1.0"
    exit
fi

# --config FILE
config=$2
directory=$(dirname "$config")
grpc=$(sed -n '/^ *grpc:$/{n;s/.*://p;}' "$config")
metrics=$(sed -n 's/^ *port: //p' "$config")
backend=$(sed -n '/^  otlp_grpc\//{n;s/^ *endpoint: //p;}' "$config")

for kind in TracePipeline MetricPipeline; do
    cat <<END
---
apiVersion: telemetry.kyma-project.io/v1beta1
kind: $kind
metadata:
  name: stand-in
spec:
  output:
    otlp:
      endpoint:
        value: http://$backend
      compression: none
END
done >"$directory/stand-in.yaml"

exec "$WEIR" run "$directory/stand-in.yaml" --data-dir "$directory/data" --memory 256MiB --grpc-port "${grpc:-0}" \
    --http-port 0 --metrics-port "$metrics" --health-port 0 --admin-port 0
