package suite

import (
	"fmt"
	"slices"
	"strings"
)

// Row is what was found: what was sent or done, what the user was told, what readers see. The script .ci/real-findings compares
// rows with docs/open-questions.md.
func Row(question, done, told, seen string) {
	fmt.Printf("row %s|%s|%s|%s\n", question, done, told, seen)
}

// AnswerCodes are the error codes that answers to Produce are made to have, each in the answer to the first try and to the second.
var AnswerCodes = []int16{0, -1, 7, 19, 45, 46, 47, 59, 87}

// AnswerOffsets are the base offsets; nil is the record's real one.
var AnswerOffsets = []*int64{new(int64), minusOne(), nil}

func minusOne() *int64 {
	offset := int64(-1)
	return &offset
}

// AnswerRow is what a user was told when an answer had this code and, in turn, each base offset: once if it is always the same.
func AnswerRow(code int16, answer int, told []string) {
	if len(slices.Compact(slices.Clone(told))) == 1 {
		told = told[:1]
	}
	try := "first try"
	if answer == 2 {
		try = "second try"
	}
	fmt.Printf("answer %d, %s|%s\n", code, try, strings.Join(told, "; "))
}
