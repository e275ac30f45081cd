package event

import (
	"errors"
	"strings"
	"testing"
)

const testUID = "b32ada40-f984-4606-a1e9-9e67a58ba421"

func TestSubjects(t *testing.T) {
	for _, tt := range []struct{ got, want string }{
		{FailedSubject("c1", "arrearage", testUID), "lbremedy.failed.c1.arrearage." + testUID},
		{FailedOf("c1", "arrearage"), "lbremedy.failed.c1.arrearage.>"},
		{CaseSubject("c1", testUID, "arrearage"), "lbremedy.case.c1." + testUID + ".arrearage"},
		{CaseFilter("c1", testUID), "lbremedy.case.c1." + testUID + ".>"},
		{FailedSubjects, "lbremedy.failed.>"},
		{CaseSubjects, "lbremedy.case.>"},
	} {
		if tt.got != tt.want {
			t.Errorf("got %s, want %s", tt.got, tt.want)
		}
	}
}

func TestParseFailedSubject(t *testing.T) {
	cluster, class, uid, err := ParseFailedSubject(FailedSubject("c1", "tag-missing", testUID))
	if cluster != "c1" || class != "tag-missing" || uid != testUID || err != nil {
		t.Errorf("got %q, %q, %q, %v", cluster, class, uid, err)
	}
	for _, subject := range []string{
		"", "lbremedy.failed", "lbremedy.case.c1." + testUID + ".a", "lbremedy.failed.c1.tag-missing.x",
		"lbremedy.failed.c!.tag-missing." + testUID, "lbremedy.failed.c1.*." + testUID, "lbremedy.failed.c1.a." + testUID + ".b",
	} {
		if _, _, _, err := ParseFailedSubject(subject); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: got %v, want an ErrInvalid", subject, err)
		}
	}
}

func TestValid(t *testing.T) {
	long := strings.Repeat("a", 64)
	for _, tt := range []struct {
		name  string
		check func(string) error
		good  []string
		bad   []string
	}{
		{"cluster", ValidCluster,
			[]string{"c", "cABC_1-2", long},
			[]string{"", long + "a", "a.b", "a b", "a>", "*", "é", "a\n", "c/1"}},
		{"class", ValidClass,
			[]string{"arrearage", "reuse-of-ccm-lb", "x1", long},
			[]string{"", long + "a", "Arrearage", "-a", "a-", "a_b", "a.b", "*", ">", "é"}},
		{"UID", ValidUID,
			[]string{testUID, strings.ToUpper(testUID), "00000000-0000-0000-0000-000000000000"},
			[]string{"", "x", testUID + "0", testUID[1:], strings.ReplaceAll(testUID, "-", "a"), "g" + testUID[1:], "-" + testUID[1:], strings.Repeat("*", 36)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, id := range tt.good {
				if err := tt.check(id); err != nil {
					t.Errorf("%q: %v", id, err)
				}
			}
			for _, id := range tt.bad {
				if err := tt.check(id); !errors.Is(err, ErrInvalid) {
					t.Errorf("%q: got %v, want an ErrInvalid", id, err)
				}
			}
			if err := tt.check(strings.Repeat("!", 1<<16)); len(err.Error()) > 300 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}
