package openai

// Choices is a set of the choices of an answer, by index. Indexes from 63 share a place: nobody asks for so many.
type Choices uint64

func choiceAt(index int64) Choices { return 1 << min(uint64(max(index, 0)), 63) }

// Progress tells over the events of a stream whether its answer is whole. The zero value is a stream that has not begun.
type Progress struct{ begun, finished Choices }

// Add takes what one event says.
func (p *Progress) Add(f *EventFacts) {
	p.begun |= f.Begun
	p.finished |= f.Finished
}

// Whole says whether every choice that has begun has finished, and at least one has.
func (p *Progress) Whole() bool { return p.finished != 0 && p.begun&^p.finished == 0 }
