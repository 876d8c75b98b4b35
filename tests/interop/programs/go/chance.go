package main

import (
	"fmt"
	"math"
	"math/rand"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	pagesByChance = 8
	mostSeries    = 5
)

// One series: what it has counted so far, and where.
type series struct {
	of      dto.MetricType
	labels  []*dto.LabelPair
	value   float64
	count   uint64
	created *timestamppb.Timestamp
	schema  int32
	// Counts of native buckets by their index, on both sides.
	positive, negative map[int32]uint64
	zero               uint64
}

// Families of all types whose series come, go, return and begin anew. A seed always gives the same.
func byChance(seed int64) sequence {
	chance := rand.New(rand.NewSource(seed))
	types := []dto.MetricType{
		dto.MetricType_COUNTER, dto.MetricType_GAUGE, dto.MetricType_SUMMARY, dto.MetricType_UNTYPED,
		dto.MetricType_HISTOGRAM, dto.MetricType_HISTOGRAM,
	}
	found := sequence{name: fmt.Sprintf("seed %d", seed)}
	families := make([][]*series, 1+chance.Intn(6))
	for index := range families {
		of := types[chance.Intn(len(types))]
		isNative := chance.Intn(3) > 0
		for number := 0; number < mostSeries; number++ {
			families[index] = append(families[index], newSeries(chance, of, isNative, number))
		}
	}
	for turn := 0; turn < pagesByChance; turn++ {
		var next page
		for index, all := range families {
			name := fmt.Sprintf("family_%d", index)
			if all[0].of == dto.MetricType_COUNTER {
				name += "_total"
			}
			shown := family(name, all[0].of)
			for _, one := range all {
				one.move(chance)
				if chance.Intn(5) > 0 {
					shown.Metric = append(shown.Metric, one.metric())
				}
			}
			if len(shown.Metric) > 0 {
				next = append(next, shown)
			}
		}
		found.pages = append(found.pages, next)
	}
	return found
}

func newSeries(chance *rand.Rand, of dto.MetricType, isNative bool, number int) *series {
	made := &series{of: of, labels: labels("n", fmt.Sprint(number), "word", "a \"b\"\nü")}
	if isNative {
		made.positive, made.negative = map[int32]uint64{}, map[int32]uint64{}
		made.schema = int32(chance.Intn(13) - 4)
	}
	if chance.Intn(2) == 0 {
		made.created = &timestamppb.Timestamp{Seconds: 1_700_000_000 + int64(chance.Intn(1000))}
	}
	return made
}

func (s *series) move(chance *rand.Rand) {
	if chance.Intn(10) == 0 {
		s.count, s.zero = 0, 0
		if s.positive != nil {
			s.positive, s.negative = map[int32]uint64{}, map[int32]uint64{}
		}
		if s.created != nil {
			s.created = &timestamppb.Timestamp{Seconds: s.created.Seconds + 60}
		}
	}
	values := []float64{chance.NormFloat64() * 1e3, math.Exp(chance.NormFloat64() * 40), math.NaN(), math.Inf(1), 0}
	s.value = values[chance.Intn(len(values))]
	for range chance.Intn(6) {
		many := uint64(chance.Intn(1000))
		s.count += many
		switch side := chance.Intn(5); {
		case s.positive == nil:
		case side == 0:
			s.zero += many
		case side == 1:
			s.negative[int32(chance.Intn(40)-20)] += many
		default:
			s.positive[int32(chance.Intn(400)-200)] += many
		}
	}
}

func (s *series) metric() *dto.Metric {
	metric := &dto.Metric{Label: s.labels}
	switch s.of {
	case dto.MetricType_COUNTER:
		metric.Counter = &dto.Counter{Value: proto.Float64(float64(s.count)), CreatedTimestamp: s.created}
	case dto.MetricType_GAUGE:
		metric.Gauge = &dto.Gauge{Value: proto.Float64(s.value)}
	case dto.MetricType_UNTYPED:
		metric.Untyped = &dto.Untyped{Value: proto.Float64(s.value)}
	case dto.MetricType_SUMMARY:
		metric.Summary = &dto.Summary{
			SampleCount: proto.Uint64(s.count), SampleSum: proto.Float64(s.value), CreatedTimestamp: s.created,
			Quantile: []*dto.Quantile{
				{Quantile: proto.Float64(0.5), Value: proto.Float64(s.value)},
				{Quantile: proto.Float64(0.99), Value: proto.Float64(math.NaN())},
			},
		}
	default:
		metric.Histogram = s.histogram()
	}
	return metric
}

func (s *series) histogram() *dto.Histogram {
	if s.positive == nil {
		made := classic(s.count, s.value, 0.1, float64(s.count/3), 1, float64(s.count/2), math.Inf(1), float64(s.count))
		made.CreatedTimestamp = s.created
		return made
	}
	made := &dto.Histogram{
		SampleCount: proto.Uint64(s.count), SampleSum: proto.Float64(s.value), CreatedTimestamp: s.created,
		Schema: proto.Int32(s.schema), ZeroThreshold: proto.Float64(1e-3), ZeroCount: proto.Uint64(s.zero),
	}
	made.PositiveSpan, made.PositiveDelta = buckets(s.positive)
	made.NegativeSpan, made.NegativeDelta = buckets(s.negative)
	if len(made.PositiveSpan)+len(made.NegativeSpan) == 0 {
		made.PositiveSpan = spans(0, 0)
	}
	return made
}

// The buckets of one side: neighbours share a span.
func buckets(counts map[int32]uint64) ([]*dto.BucketSpan, []int64) {
	var all []*dto.BucketSpan
	var deltas []int64
	var last int64
	next := int32(0)
	for index := int32(-200); index < 200; index++ {
		count, is := counts[index]
		if !is {
			continue
		}
		if len(all) == 0 || index > next {
			all = append(all, spans(index-next, 0)...)
		}
		all[len(all)-1].Length = proto.Uint32(all[len(all)-1].GetLength() + 1)
		deltas = append(deltas, int64(count)-last)
		last, next = int64(count), index+1
	}
	return all, deltas
}
