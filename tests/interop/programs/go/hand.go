package main

import (
	"math"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// What the client library never writes.
func byHand() []sequence {
	start := &timestamppb.Timestamp{Seconds: 1_700_000_000, Nanos: 123_456_789}
	integers := func(count uint64) *dto.Histogram {
		return &dto.Histogram{
			SampleCount: proto.Uint64(count + 12), SampleSum: proto.Float64(1.5), Schema: proto.Int32(3),
			ZeroThreshold: proto.Float64(0.001), ZeroCount: proto.Uint64(count),
			PositiveSpan: spans(-2, 2, 3, 1), PositiveDelta: []int64{1, 2, -1},
			NegativeSpan: spans(0, 1, 0, 1), NegativeDelta: []int64{1, 4},
		}
	}
	fractions := &dto.Histogram{
		SampleCountFloat: proto.Float64(7.5), SampleSum: proto.Float64(2), Schema: proto.Int32(0),
		ZeroThreshold: proto.Float64(0), ZeroCountFloat: proto.Float64(1.25),
		PositiveSpan: spans(1, 2), PositiveCount: []float64{2.5, 3.75},
	}
	created := integers(1)
	created.CreatedTimestamp = start
	// Without observations, a span of no length says that it is native.
	nothing := &dto.Histogram{
		SampleCount: proto.Uint64(0), SampleSum: proto.Float64(0), Schema: proto.Int32(3),
		ZeroThreshold: proto.Float64(0.001), ZeroCount: proto.Uint64(0), PositiveSpan: spans(0, 0),
	}
	gone := integers(3)
	gone.SampleSum = proto.Float64(math.Float64frombits(0x7ff0000000000002))
	unbounded := classic(7, 1, 0.1, 3, 1, 7)
	unbounded.Bucket = unbounded.Bucket[:2]
	timed := histogram("timed", integers(1))
	timed.Metric[0].TimestampMs = proto.Int64(1_700_000_000_123)
	summed := integers(1)
	summed.SampleSum = nil
	empty := integers(1)
	empty.PositiveSpan, empty.PositiveDelta = spans(2, 3, 2, 2), []int64{0, 2, -2, 3, -3}
	extremes := integers(1)
	extremes.Schema, extremes.PositiveSpan, extremes.PositiveDelta = proto.Int32(-4), spans(-3, 1, 5, 1), []int64{3, 1}
	finest := integers(1)
	finest.Schema, finest.PositiveSpan, finest.PositiveDelta = proto.Int32(8), spans(-70000, 1, 300, 1), []int64{3, 1}
	return []sequence{
		{"native", []page{{histogram("h", integers(1))}, {histogram("h", integers(4))}, {histogram("h", integers(2))}}},
		{"native with fractions", []page{{histogram("h", fractions)}}},
		{"native that was created", []page{{histogram("h", created)}, {}}},
		{"native without observations", []page{{histogram("h", nothing)}, {histogram("h", integers(0))}}},
		{"native with time", []page{{timed}, {}}},
		{"native that is stale", []page{{histogram("h", integers(1))}, {histogram("h", gone)}}},
		{"native with wide buckets", []page{{histogram("h", extremes)}, {histogram("h", finest)}}},
		{"native that becomes classic", []page{
			{histogram("h", integers(1))}, {histogram("h", classic(7, 1, 0.1, 3, 1, 7))}, {histogram("h", integers(1))}, {},
		}},
		{"native without sum", []page{{histogram("h", summed)}}},
		{"native with empty buckets", []page{{histogram("h", empty)}}},
		{"native twice", []page{{histogram("h", integers(1)), histogram("h", integers(1)), histogram("i", integers(1))}}},
		{"gauge histogram", []page{{gaugeHistogram(classic(7, 1, 0.1, 3, 1, 7))}}},
		{"native gauge histogram", []page{{gaugeHistogram(integers(1))}}},
		{"classic without the last bound", []page{{histogram("h", unbounded)}}},
		{"classic with the last bound", []page{{histogram("h", classic(7, 1, 0.1, 3, math.Inf(1), 7))}, {}}},
		{"classic without anything", []page{{histogram("h", &dto.Histogram{})}}},
		{"classic without buckets", []page{{histogram("h", classic(7, 1))}}},
		{"values that are not there", []page{{
			family("c", dto.MetricType_COUNTER, &dto.Metric{Counter: &dto.Counter{}}),
			family("g", dto.MetricType_GAUGE, &dto.Metric{Gauge: &dto.Gauge{}}),
			family("s", dto.MetricType_SUMMARY, &dto.Metric{Summary: &dto.Summary{}}),
		}}},
		{"labels and units", []page{labelled(1), labelled(2)}},
		{"info of target and scope", []page{infos("1"), infos("2")}},
		{"the same twice", []page{{
			family("g", dto.MetricType_GAUGE, gauge(1, "a", "1"), gauge(1, "a", "1"), gauge(2, "a", "2")),
		}}},
	}
}

func labelled(value float64) page {
	seconds := family("wait_seconds", dto.MetricType_GAUGE, gauge(value, "job", "j", "instance", "i", "b", "", "a", "ü"))
	seconds.Unit, seconds.Help = proto.String("seconds"), proto.String("With \\ and\nlines.")
	plain := family("plain", dto.MetricType_UNTYPED, &dto.Metric{Untyped: &dto.Untyped{Value: proto.Float64(value)}})
	plain.Unit = proto.String("bytes")
	return page{seconds, plain}
}

func infos(version string) page {
	scoped := gauge(1, "otel_scope_name", "s", "otel_scope_version", "1", "a", "b")
	return page{
		family("target_info", dto.MetricType_GAUGE, gauge(1, "service_version", version)),
		family("scoped", dto.MetricType_GAUGE, scoped),
		family("plain", dto.MetricType_GAUGE, gauge(2, "a", "b")),
	}
}

func family(name string, of dto.MetricType, metrics ...*dto.Metric) *dto.MetricFamily {
	return &dto.MetricFamily{Name: proto.String(name), Help: proto.String("Help."), Type: of.Enum(), Metric: metrics}
}

func histogram(name string, of *dto.Histogram) *dto.MetricFamily {
	return family(name, dto.MetricType_HISTOGRAM, &dto.Metric{Label: labels("a", "b"), Histogram: of})
}

func gaugeHistogram(of *dto.Histogram) *dto.MetricFamily {
	return family("g", dto.MetricType_GAUGE_HISTOGRAM, &dto.Metric{Label: labels("a", "b"), Histogram: of})
}

func gauge(value float64, pairs ...string) *dto.Metric {
	return &dto.Metric{Label: labels(pairs...), Gauge: &dto.Gauge{Value: proto.Float64(value)}}
}

func labels(pairs ...string) []*dto.LabelPair {
	var all []*dto.LabelPair
	for index := 0; index < len(pairs); index += 2 {
		all = append(all, &dto.LabelPair{Name: &pairs[index], Value: &pairs[index+1]})
	}
	return all
}

// Pairs of an offset and a length.
func spans(numbers ...int32) []*dto.BucketSpan {
	var all []*dto.BucketSpan
	for index := 0; index < len(numbers); index += 2 {
		length := uint32(numbers[index+1])
		all = append(all, &dto.BucketSpan{Offset: proto.Int32(numbers[index]), Length: proto.Uint32(length)})
	}
	return all
}

// Pairs of a bound and a count.
func classic(count uint64, sum float64, pairs ...float64) *dto.Histogram {
	made := &dto.Histogram{SampleCount: proto.Uint64(count), SampleSum: proto.Float64(sum)}
	for index := 0; index < len(pairs); index += 2 {
		made.Bucket = append(made.Bucket, &dto.Bucket{
			UpperBound: proto.Float64(pairs[index]), CumulativeCount: proto.Uint64(uint64(pairs[index+1])),
		})
	}
	return made
}
