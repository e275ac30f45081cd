package ccm

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func wrote(second int, subresource, fields string) metav1.ManagedFieldsEntry {
	e := metav1.ManagedFieldsEntry{Subresource: subresource, Time: &metav1.Time{Time: time.Date(2026, 5, 4, 8, 0, second, 0, time.UTC)}}
	if fields != "" {
		e.FieldsV1 = &metav1.FieldsV1{}
		e.FieldsV1.SetRawBytes([]byte(fields))
	}
	return e
}

const (
	ofSpec        = `{"f:spec":{"f:type":{}}}`
	ofAnnotations = `{"f:metadata":{"f:annotations":{"f:a":{}}}}`
	ofHash        = `{"f:metadata":{"f:labels":{"f:` + HashLabel + `":{}}}}`
)

// A write of labels, finalizers or the status does not trigger a sync.
func TestChanged(t *testing.T) {
	t.Parallel()
	undated := wrote(9, "", ofSpec)
	undated.Time = nil
	for name, tt := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		want    int // second; 0: none
	}{
		"none":        {nil, 0},
		"spec":        {[]metav1.ManagedFieldsEntry{wrote(1, "", ofSpec)}, 1},
		"annotations": {[]metav1.ManagedFieldsEntry{wrote(2, "", ofAnnotations)}, 2},
		"not said":    {[]metav1.ManagedFieldsEntry{wrote(3, "", "")}, 3},
		"others": {[]metav1.ManagedFieldsEntry{
			wrote(1, "", ofSpec), wrote(9, "", `{"f:metadata":{"f:finalizers":{}}}`), wrote(9, "", `{"f:metadata":{"f:labels":{"f:team":{}}}}`),
			wrote(9, "status", ofAnnotations), undated,
		}, 1},
	} {
		var want time.Time
		if tt.want > 0 {
			want = wrote(tt.want, "", "").Time.Time
		}
		if got := Changed(&corev1.Service{ObjectMeta: metav1.ObjectMeta{ManagedFields: tt.entries}}); !got.Equal(want) {
			t.Errorf("%s: changed at %s, want %s", name, got, want)
		}
	}
}

// A delay is measured only between a change and the full sync of exactly that change.
func TestSyncDelay(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		edit    func(*corev1.Service)
		want    time.Duration
	}{
		"synced":          {[]metav1.ManagedFieldsEntry{wrote(10, "", ofAnnotations), wrote(17, "status", ofHash)}, nil, 7 * time.Second},
		"the same second": {[]metav1.ManagedFieldsEntry{wrote(10, "", ofAnnotations), wrote(10, "status", ofHash)}, nil, time.Second},
		"the last change": {[]metav1.ManagedFieldsEntry{wrote(2, "", ofSpec), wrote(10, "", ofAnnotations), wrote(17, "status", ofHash)}, nil, 7 * time.Second},
		"synced before":   {[]metav1.ManagedFieldsEntry{wrote(10, "", ofAnnotations), wrote(9, "status", ofHash)}, nil, 0},
		"another state was synced": {[]metav1.ManagedFieldsEntry{wrote(10, "", ofAnnotations), wrote(17, "status", ofHash)},
			func(svc *corev1.Service) { svc.Annotations["a"] = "c" }, 0},
		"never synced":                     {[]metav1.ManagedFieldsEntry{wrote(10, "", ofAnnotations)}, func(svc *corev1.Service) { svc.Labels = nil }, 0},
		"no times":                         {nil, nil, 0},
		"a label that a person sent along": {[]metav1.ManagedFieldsEntry{wrote(10, "", ofAnnotations), wrote(17, "", ofHash)}, nil, 0},
	} {
		svc := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": "b"}, ManagedFields: tt.entries}}
		hash, _ := Hash(svc, Version{Major: 2, Minor: 14})
		svc.Labels = map[string]string{HashLabel: hash}
		if tt.edit != nil {
			tt.edit(svc)
		}
		if got := SyncDelay(svc); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}
