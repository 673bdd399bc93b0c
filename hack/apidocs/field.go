package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// durationSign is how the pattern of a duration begins.
const durationSign = `^([0-9]{1,5}(h|m|s|ms))`

// typeName is a field's type in words.
func (s *schema) typeName() string {
	switch {
	case s.Items != nil:
		return "list of " + s.Items.typeName()
	case s.AdditionalProperties != nil:
		return "map of " + s.AdditionalProperties.typeName()
	case len(s.Enum) > 0:
		return "`" + strings.Join(s.Enum, "`, `") + "`"
	case strings.HasPrefix(s.Pattern, durationSign):
		return "duration"
	case s.Format == "date-time":
		return "time"
	}
	return s.Type
}

// defaultText is a field's default; an object's is that of its fields.
func (s *schema) defaultText(required bool) string {
	switch value := s.Default.(type) {
	case nil:
		if required {
			return "required"
		}
		return ""
	case map[string]any:
		return ""
	case string:
		return "`" + value + "`"
	default:
		text, err := json.Marshal(value)
		if err != nil {
			return fmt.Sprint(value)
		}
		return "`" + string(text) + "`"
	}
}

// meaning is the description, with bounds and rules behind it.
func (s *schema) meaning() string {
	text := oneLine(s.Description)
	text += bounds(s.Minimum, s.Maximum, "")
	if s.typeName() != "duration" && len(s.Enum) == 0 {
		text += bounds(s.MinLength, s.MaxLength, " characters")
	}
	text += bounds(s.MinItems, s.MaxItems, " entries")
	rules := s.Validations
	if s.typeName() == "duration" {
		rules = rules[:0:0]
		for _, rule := range s.Validations {
			if !strings.HasPrefix(rule.Message, "A duration is") { // said once, above
				rules = append(rules, rule)
			}
		}
	}
	if len(s.Properties) > 0 {
		rules = nil // they stand above the object's own table
	}
	return cell(sentences(text, rules))
}

// bounds says "1 to 8 entries."
func bounds(low, high *int64, unit string) string {
	switch {
	case low != nil && high != nil:
		return fmt.Sprintf(" %d to %d%s.", *low, *high, unit)
	case high != nil:
		return fmt.Sprintf(" At most %d%s.", *high, unit)
	case low != nil:
		return fmt.Sprintf(" At least %d%s.", *low, unit)
	}
	return ""
}

// sentences joins a description and the rules that the API server enforces.
func sentences(text string, rules []struct{ Message string }) string {
	text = oneLine(text)
	for _, rule := range rules {
		if !strings.Contains(text, rule.Message) {
			text += " " + oneLine(rule.Message)
		}
	}
	return strings.TrimSpace(text)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// angles keeps <words> from being read as HTML.
var angles = strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;")

// cell makes a text fit into a cell of a table.
func cell(text string) string { return angles.Replace(text) }
