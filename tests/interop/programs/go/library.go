package main

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"
)

// Everything that the client library for Go has, twice.
func ofLibrary() (sequence, error) {
	registry := prometheus.NewRegistry()
	work := register(registry)
	found := sequence{name: "client_golang"}
	for turn := 0; turn < 3; turn++ {
		work(turn)
		families, err := registry.Gather()
		if err != nil {
			return found, err
		}
		found.pages = append(found.pages, families)
	}
	return found, nil
}

func register(registry *prometheus.Registry) func(turn int) {
	trace := prometheus.Labels{
		"trace_id": "0123456789abcdef0123456789abcdef",
		"span_id":  "0123456789abcdef",
	}
	jobs := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "jobs_seconds_total", Help: "Time \"spent\" on\njobs\\.",
	}, []string{"kind"})
	room := prometheus.NewGauge(prometheus.GaugeOpts{Name: "temperature", Help: "In the room."})
	strange := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "strange", Help: "Numbers."}, []string{"what"})
	unknown := prometheus.NewUntypedFunc(prometheus.UntypedOpts{Name: "unknown"}, func() float64 { return 3 })
	utf8 := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "a.name/with ünicode"}, []string{"a.label"})
	size := prometheus.NewSummaryVec(prometheus.SummaryOpts{
		Name: "size_bytes", Help: "Of answers.", Objectives: map[float64]float64{0.5: 0.05, 0.9: 0.01},
	}, []string{"path"})
	bare := prometheus.NewSummary(prometheus.SummaryOpts{Name: "bare_bytes"})
	classic := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "classic_seconds", Help: "With bounds.", Buckets: []float64{0.1, 1, 10},
	}, []string{"path"})
	native := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "native_seconds", Help: "Native.", NativeHistogramBucketFactor: 1.1, NativeHistogramMaxExemplars: 5,
	}, []string{"path"})
	both := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "both_seconds", Help: "Both.", Buckets: []float64{0.1, 1, 10}, NativeHistogramBucketFactor: 1.5,
	})
	empty := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "empty_seconds", Help: "Nothing was observed.", NativeHistogramBucketFactor: 1.1,
	})
	coarse := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "coarse_seconds", Help: "Few buckets.", NativeHistogramBucketFactor: 65536,
		NativeHistogramZeroThreshold: 0.5, NativeHistogramMaxBucketNumber: 4,
	})
	none := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "none_total", Help: "No series."}, []string{"x"})
	registry.MustRegister(jobs, room, strange, unknown, utf8, size, bare, classic, native, both, empty, coarse, none)
	return func(turn int) {
		jobs.WithLabelValues("quick").Add(1.5)
		jobs.WithLabelValues("a \"quoted\"\nword\\").(prometheus.ExemplarAdder).AddWithExemplar(2, trace)
		room.Sub(7.25)
		strange.WithLabelValues("nothing").Set(math.NaN())
		strange.WithLabelValues("more").Set(math.Inf(1))
		strange.WithLabelValues("less").Set(math.Inf(-1))
		strange.WithLabelValues("").Set(math.SmallestNonzeroFloat64)
		utf8.WithLabelValues("ü").Set(float64(turn))
		for _, seconds := range []float64{0.05, 0.5, 5, 50, -0.3, 0, 1e-40, 12345.678} {
			for _, path := range []string{"/", "/a?b=\"c\""} {
				size.WithLabelValues(path).Observe(seconds * 1000)
				classic.WithLabelValues(path).(prometheus.ExemplarObserver).ObserveWithExemplar(seconds, trace)
				native.WithLabelValues(path).(prometheus.ExemplarObserver).ObserveWithExemplar(seconds, trace)
			}
			bare.Observe(seconds)
			both.(prometheus.ExemplarObserver).ObserveWithExemplar(seconds, trace)
			coarse.Observe(seconds * float64(turn+1))
		}
		if turn == 1 {
			// A series that leaves, and one that comes.
			native.DeleteLabelValues("/")
			native.WithLabelValues("/late").Observe(1)
			strange.DeleteLabelValues("more")
		}
	}
}
